//! A read-only mount of a directory that is attached nowhere yet.
//!
//! A bind mount that is made read-only after it was attached is not read-only for others: where it
//! was attached below a shared mount, the copies that the kernel made in other namespaces keep
//! their flags. mount_setattr(2) on a detached mount would do it, from Linux 5.12 on. On all kernels a
//! thread makes the mount in its own mount namespace, which shares nothing, and hands over a
//! detached copy of it, which has its flags from the start. Nothing is left over, whenever the
//! process is killed. All steps go by descriptors, so that no link in the directory's place is
//! followed.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};

use nix::sched::{CloneFlags, unshare};
use rustix::fs::{StatVfsMountFlags, fstatvfs};
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, mount_change, mount_remount,
    move_mount, open_tree,
};
use tetris_sandbox::idmap::IdMap;

use crate::mount::StoreDirectory;

/// Use of a mount beyond reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MountUse {
    /// None: nothing there can be executed.
    Data,
    /// Programs and extension modules.
    Code,
}

/// A detached mount of `dir`: read-only, without devices and set-user-ID, with the ids of `map`, and with execution of code alone.
pub(super) fn read_only_mount(
    dir: &StoreDirectory,
    map: Option<&IdMap>,
    mount_use: MountUse,
) -> io::Result<OwnedFd> {
    let tree = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("read-only".to_owned());
        let made = thread
            .spawn_scoped(scope, || in_own_namespace(dir, mount_use))?
            .join();
        made.map_err(|_| io::Error::other("the thread that makes the mount panicked"))?
    })?;
    if !fstatvfs(&tree)?.f_flag.contains(StatVfsMountFlags::RDONLY) {
        return Err(io::Error::other("the detached mount is not read-only"));
    }
    if let Some(map) = map {
        map.apply(&tree)?;
    }
    Ok(tree)
}

fn in_own_namespace(dir: &StoreDirectory, mount_use: MountUse) -> io::Result<OwnedFd> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    // What is mounted from here on is seen by this thread alone.
    mount_change(
        "/",
        MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
    )?;
    let dir = dir.again()?;
    let tree = detached(&dir)?;
    // Options are changed of attached mounts alone.
    let at = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(&tree, "", &dir, "", at)?;
    let mut flags = MountFlags::BIND | MountFlags::RDONLY | MountFlags::NODEV | MountFlags::NOSUID;
    if mount_use == MountUse::Data {
        flags |= MountFlags::NOEXEC;
    }
    mount_remount(format!("/proc/self/fd/{}", tree.as_raw_fd()), flags, "")?;
    detached(&tree)
}

/// A detached copy of the mount through which `dir` was opened, with `dir` as its root.
fn detached(dir: impl AsFd) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH;
    Ok(open_tree(dir, "", flags)?)
}
