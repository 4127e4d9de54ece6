//! The tmpfs of a package: made complete and read-only, mounted at its name, and unmounted from
//! there by a daemon that has another one.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::CWD;
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, UnmountFlags, fsconfig_create,
    fsconfig_reconfigure, fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, move_mount,
    unmount,
};

use super::config::PythonConfig;
use super::contents::{MOST_BYTES, MOST_FILES, PackageContents};
use crate::csi::error::VolumeError;
use crate::mount::{MountEntry, StoreDirectory, StoreGround, is_mount_root, mount_of};

/// Its source in lists of mounts.
const SOURCE: &str = "tetris-python";
/// Exists where SELinux is on, in containers too.
const SELINUX: &str = "/sys/fs/selinux/enforce";

/// The package of this daemon, mounted when the first pod asks for it.
#[derive(Debug)]
pub(in crate::csi) struct PackageMount {
    config: PythonConfig,
    /// Its mount point, once it is mounted.
    path: Mutex<Option<PathBuf>>,
}

impl PackageMount {
    pub(in crate::csi) fn new(config: PythonConfig) -> Self {
        Self {
            config,
            path: Mutex::default(),
        }
    }

    /// The mounted package. Not to be called twice at once.
    pub(in crate::csi) fn directory(&self) -> Result<StoreDirectory, VolumeError> {
        let mut known = self.path.lock().unwrap_or_else(PoisonError::into_inner);
        let there = known.as_deref().map(|path| self.mounted(path));
        if let Some(Some(directory)) = there.transpose()? {
            return Ok(directory);
        }
        let path = self.mount()?;
        let directory = self.mounted(&path)?;
        *known = Some(path.clone());
        directory.ok_or(VolumeError::NoPackage { path })
    }

    /// Unmounts the packages of earlier daemons from their places. Pods that have them keep them.
    pub(in crate::csi) fn unmount_others(&self) {
        let Ok(entries) = fs::read_dir(&self.config.path) else {
            // No daemon gave one yet.
            return;
        };
        let ours = match PackageContents::read(&self.config.source) {
            Ok(contents) => self.config.path.join(contents.name()),
            Err(error) => {
                tracing::warn!(source = %self.config.source.display(), %error, "the Python package cannot be read; those of earlier daemons stay mounted");
                return;
            }
        };
        let others = entries.flatten().map(|entry| entry.path());
        for path in others.filter(|path| *path != ours) {
            match unmount(&path, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
                // Nothing is mounted there.
                Ok(()) | Err(Errno::INVAL) => {}
                Err(error) => {
                    tracing::warn!(path = %path.display(), %error, "an earlier Python package cannot be unmounted");
                    continue;
                }
            }
            match fs::remove_dir(&path) {
                Ok(()) => {
                    tracing::info!(path = %path.display(), "an earlier Python package unmounted; pods that have it keep it");
                }
                Err(error) => {
                    tracing::warn!(path = %path.display(), %error, "an earlier Python package's mount point cannot be removed");
                }
            }
        }
    }

    /// The directory at `path` if a package is mounted there.
    fn mounted(&self, path: &Path) -> Result<Option<StoreDirectory>, VolumeError> {
        let ground = StoreGround {
            root: Some(self.config.path.clone()),
            user: 0,
        };
        let opened = ground.open(path).map_err(VolumeError::io("open", path))?;
        let Some(directory) = opened else {
            return Ok(None);
        };
        let is_package = is_package(&directory);
        let is_package =
            is_package.map_err(VolumeError::io("find out what is mounted at", path))?;
        Ok(is_package.then_some(directory))
    }

    fn mount(&self) -> Result<PathBuf, VolumeError> {
        let source = &self.config.source;
        let failed = || VolumeError::io("read the Python package in", source);
        let contents = PackageContents::read(source).map_err(failed())?;
        let path = self.config.path.join(contents.name());
        if self.mounted(&path)?.is_some() {
            return Ok(path);
        }
        let mut builder = DirBuilder::new();
        let made = builder.recursive(true).mode(0o755).create(&path);
        made.map_err(VolumeError::io("create", &path))?;
        let tree = self.filled(&contents);
        let tree = tree.map_err(VolumeError::io("copy the Python package to", &path))?;
        let from = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        move_mount(&tree, "", CWD, &path, from)
            .map_err(VolumeError::io("mount the Python package at", &path))?;
        if contents.is_empty() {
            tracing::warn!(source = %source.display(), "this daemon's image has no Python package, so volumes of it are empty; build the image with deploy/images/build");
        } else {
            tracing::info!(path = %path.display(), bytes = contents.bytes(), "Python package mounted");
        }
        Ok(path)
    }

    /// A tmpfs with the package, which no one can write to, attached nowhere yet.
    fn filled(&self, contents: &PackageContents) -> io::Result<OwnedFd> {
        let context = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
        let set = |option: &str, value: &str| {
            fsconfig_set_string(context.as_fd(), option, value).map_err(|error| {
                io::Error::new(error.kind(), format!("option `{option}`: {error}"))
            })
        };
        set("source", SOURCE)?;
        set("mode", "0755")?;
        set("size", &(MOST_BYTES + MOST_FILES as u64 * 4096).to_string())?;
        // One for the root.
        set("nr_inodes", &(MOST_FILES + 1).to_string())?;
        if Path::new(SELINUX).exists() {
            set("context", &self.config.selinux_context)?;
        }
        fsconfig_create(&context)?;
        let attributes = MountAttrFlags::MOUNT_ATTR_NODEV | MountAttrFlags::MOUNT_ATTR_NOSUID;
        let tree = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
        contents.copy(Path::new(&format!("/proc/self/fd/{}", tree.as_raw_fd())))?;
        fsconfig_set_flag(&context, "ro")?;
        fsconfig_reconfigure(&context)?;
        Ok(tree)
    }
}

/// Returns true if the directory is the root of a package's mount.
fn is_package(directory: &StoreDirectory) -> io::Result<bool> {
    Ok(is_mount_root(directory)? && is_package_mount(&mount_of(directory)?))
}

/// Returns true if it is a mount of a whole tmpfs that no one can write to, as packages are alone.
pub(in crate::csi) fn is_package_mount(entry: &MountEntry) -> bool {
    let is_read_only = entry.super_option("ro").is_some();
    entry.fs_type == "tmpfs" && entry.root == Path::new("/") && is_read_only
}
