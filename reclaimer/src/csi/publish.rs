//! Mounts of stores at targets, and their removal. The mounts are the only state.

use std::os::fd::OwnedFd;

use rustix::mount::{MoveMountFlags, move_mount};

use tetris_sandbox::idmap::IdMap;

use super::error::VolumeError;
pub(super) use super::read_only::MountUse;
use super::read_only::read_only_mount;
use super::target::TargetDirectory;
use crate::mount::{MountEntry, StoreDirectory};

/// Mounts that lie on top of each other at a target, at most: there is one, unless others mounted
/// there too.
const MOST_MOUNTS: usize = 16;

/// State of a target.
enum There {
    Nothing,
    /// The store, read-only.
    Published,
    /// The store, but not read-only: something has tampered with it.
    Writable(OwnedFd),
    Other(String),
}

/// Mounts `store`, a store or the Python package, at `target`, read-only and with the ids of `map`, unless it is there already.
pub(super) fn publish(
    target: &TargetDirectory,
    store: &StoreDirectory,
    map: Option<&IdMap>,
    mount_use: MountUse,
) -> Result<(), VolumeError> {
    target.make()?;
    match there(target, store)? {
        There::Published => return Ok(()),
        There::Nothing => {}
        There::Writable(mounted) => {
            tracing::warn!(target = %target.path().display(), "the store is mounted there, but not read-only; mounting it anew");
            target.unmount(&mounted)?;
        }
        There::Other(found) => return Err(occupied(target, found)),
    }
    let tree = read_only_mount(store, map, mount_use).map_err(VolumeError::io(
        "make a read-only mount of the store",
        store.path(),
    ))?;
    let Some(dir) = target.dir()? else {
        return Err(occupied(
            target,
            "another process, which removes it".to_owned(),
        ));
    };
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(&tree, "", &dir, "", flags)
        .map_err(VolumeError::io("attach the store at", target.path()))?;
    verify(target, store)
}

/// Returns true if the store is mounted at `target`, read-only.
pub(super) fn is_published(
    target: &TargetDirectory,
    store: &StoreDirectory,
) -> Result<bool, VolumeError> {
    Ok(matches!(there(target, store)?, There::Published))
}

/// Removes all mounts at `target`, and the directory.
pub(super) fn unpublish(target: &TargetDirectory) -> Result<(), VolumeError> {
    for _ in 0..MOST_MOUNTS {
        match target.mounted()? {
            Some((_, mounted)) => target.unmount(&mounted)?,
            None => return target.remove(),
        }
    }
    Err(occupied(target, format!("over {MOST_MOUNTS} mounts")))
}

fn there(target: &TargetDirectory, store: &StoreDirectory) -> Result<There, VolumeError> {
    let Some((entry, dir)) = target.mounted()? else {
        return Ok(There::Nothing);
    };
    if !store
        .is(&dir)
        .map_err(VolumeError::io("stat", target.path()))?
    {
        return Ok(There::Other(describe(&entry)));
    }
    Ok(if entry.is_read_only() {
        There::Published
    } else {
        There::Writable(dir)
    })
}

/// After the fact, as mountinfo has it.
fn verify(target: &TargetDirectory, store: &StoreDirectory) -> Result<(), VolumeError> {
    let not_read_only = |found: String| VolumeError::NotReadOnly {
        target: target.path().to_owned(),
        found,
    };
    match there(target, store)? {
        There::Published => {
            let private = target.mounted()?.is_some_and(|(entry, _)| !entry.shared);
            if private {
                tracing::warn!(target = %target.path().display(), "published, but on a private mount: where this process runs in a container, pods do not see it; the kubelet's directory needs `mountPropagation: Bidirectional`");
            }
            Ok(())
        }
        There::Writable(mounted) => {
            target.unmount(&mounted)?;
            Err(not_read_only("writable".to_owned()))
        }
        There::Nothing => Err(not_read_only("not a mount".to_owned())),
        There::Other(found) => Err(occupied(target, found)),
    }
}

fn describe(entry: &MountEntry) -> String {
    format!(
        "directory `{}` of a file system of type {}",
        entry.root.display(),
        entry.fs_type
    )
}

fn occupied(target: &TargetDirectory, found: String) -> VolumeError {
    VolumeError::Occupied {
        target: target.path().to_owned(),
        found,
    }
}
