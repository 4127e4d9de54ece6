//! A read-only mount of a directory that is attached nowhere yet.
//!
//! A bind mount that is made read-only after it was attached is not read-only for others: where it
//! was attached below a shared mount, the copies that the kernel made in other namespaces keep
//! their flags. mount_setattr(2) on a detached mount would do it, from Linux 5.12 on. On all kernels a
//! thread makes the mount in a mount namespace of its own, which shares nothing, and hands over a
//! detached copy of it, which has its flags from the start. Nothing is left over, whenever the
//! process is killed.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use nix::sched::{CloneFlags, unshare};
use rustix::fs::{CWD, StatVfsMountFlags, fstatvfs};
use rustix::mount::{
    MountFlags, MountPropagationFlags, OpenTreeFlags, mount_bind, mount_change, mount_remount,
    open_tree,
};
use tetris_idmap::IdMap;

/// A detached mount of `dir`: read-only, without devices, set-user-ID or execution, and with the ids of `map`.
pub(super) fn read_only_mount(dir: &Path, map: Option<&IdMap>) -> io::Result<OwnedFd> {
    let dir = dir.to_owned();
    let thread = std::thread::Builder::new().name("read-only".to_owned());
    let made = thread.spawn(move || in_own_namespace(&dir))?.join();
    let tree = made.map_err(|_| io::Error::other("the thread that makes the mount panicked"))??;
    if !fstatvfs(&tree)?.f_flag.contains(StatVfsMountFlags::RDONLY) {
        return Err(io::Error::other("the detached mount is not read-only"));
    }
    if let Some(map) = map {
        map.apply(&tree)?;
    }
    Ok(tree)
}

fn in_own_namespace(dir: &Path) -> io::Result<OwnedFd> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    // What is mounted from here on is seen by this thread alone.
    mount_change(
        "/",
        MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
    )?;
    mount_bind(dir, dir)?;
    let flags = MountFlags::BIND
        | MountFlags::RDONLY
        | MountFlags::NODEV
        | MountFlags::NOSUID
        | MountFlags::NOEXEC;
    mount_remount(dir, flags, "")?;
    let detached = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    Ok(open_tree(CWD, dir, detached)?)
}
