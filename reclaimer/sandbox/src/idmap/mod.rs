//! Idmapped mounts: mounts through which the ids of a file system's users and groups are others, or none
//! (mount_setattr(2)).
//!
//! A file whose owner has no id on a mount belongs to no one there. No process owns it, whatever its user id, and
//! no capability that goes by the file's owner counts, such as CAP_DAC_OVERRIDE. So no one takes a lease on it
//! without CAP_LEASE, and only the rights of all others apply. It cannot be opened for writing, and a socket
//! cannot be connected to.
//!
//! The ids are those of a user namespace, which [`IdMap`] makes by a child that lives for some system calls.
//! Two calls have no safe binding in the libraries used here, and are the only unsafe code of the node
//! daemon: fork(2) in `namespace`, and mount_setattr(2) in `attributes`.

mod attributes;
mod namespace;

use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// A map of ids.
#[derive(Debug)]
pub struct IdMap(OwnedFd);

impl IdMap {
    /// The map in which the user `id` and the group `id` stand for themselves, and all others have no id.
    ///
    /// Needs CAP_SYS_ADMIN, CAP_SETUID and CAP_SETGID, and `/proc`. Takes some milliseconds.
    ///
    /// # Errors
    /// When no user namespace can be made, by a limit (`user.max_user_namespaces`) or for want of a capability.
    pub fn of_one(id: u32) -> io::Result<Self> {
        namespace::with_groups(id, &[(id, id)]).map(Self)
    }

    /// The same, and the group `group` is shown as `shown`.
    ///
    /// # Errors
    /// As [`IdMap::of_one`], and when two ids of these are alike.
    pub fn of_one_with_group(id: u32, group: u32, shown: u32) -> io::Result<Self> {
        namespace::with_groups(id, &[(id, id), (group, shown)]).map(Self)
    }

    /// Maps the ids of a mount, which is attached nowhere, has no map yet, and is not open for writing.
    ///
    /// # Errors
    /// EINVAL where the file system cannot be mapped: tmpfs by Linux 6.3 and later. EPERM without CAP_SYS_ADMIN in
    /// the file system's user namespace, or when the mount has a map. ENOSYS before Linux 5.12.
    pub fn apply(&self, mount: impl AsFd) -> io::Result<()> {
        attributes::set_map(mount.as_fd(), self.0.as_fd())
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::{AtFlags, Mode, OFlags, openat, statat};
    use rustix::mount::{
        FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen,
    };

    use super::*;

    /// The id that stands for users without one (proc(5), `overflowuid`).
    const NOBODY: u32 = 65_534;

    fn tmpfs() -> OwnedFd {
        let context = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC).unwrap();
        fsconfig_create(&context).unwrap();
        let flags = FsMountFlags::FSMOUNT_CLOEXEC;
        fsmount(&context, flags, MountAttrFlags::empty()).unwrap()
    }

    #[test]
    fn on_a_mapped_tmpfs_one_id_stands_for_itself_and_all_others_for_nobody() {
        if !nix::unistd::geteuid().is_root() {
            eprintln!("SKIPPED: needs root, to mount");
            return;
        }
        let mount = tmpfs();
        let create = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC;
        for (name, owner) in [("of-root", 0), ("of-one", 65_533), ("of-another", 1000)] {
            let file = openat(&mount, name, create, Mode::from_raw_mode(0o600)).unwrap();
            let user = Some(rustix::fs::Uid::from_raw(owner));
            rustix::fs::fchown(&file, user, Some(rustix::fs::Gid::from_raw(owner))).unwrap();
        }
        let map = IdMap::of_one(65_533).unwrap();
        if let Err(error) = map.apply(&mount) {
            eprintln!("SKIPPED: this kernel maps no ids of a tmpfs: {error}");
            return;
        }
        for (name, seen) in [
            ("of-root", NOBODY),
            ("of-one", 65_533),
            ("of-another", NOBODY),
        ] {
            let stat = statat(&mount, name, AtFlags::SYMLINK_NOFOLLOW).unwrap();
            assert_eq!((stat.st_uid, stat.st_gid), (seen, seen), "{name}");
        }
        let another = tmpfs();
        let file = openat(&another, "of-another", create, Mode::from_raw_mode(0o600)).unwrap();
        rustix::fs::fchown(&file, None, Some(rustix::fs::Gid::from_raw(1000))).unwrap();
        drop(file);
        let shown = IdMap::of_one_with_group(65_533, 1000, 0x7000_0005).unwrap();
        shown.apply(&another).unwrap();
        let stat = statat(&another, "of-another", AtFlags::SYMLINK_NOFOLLOW).unwrap();
        assert_eq!((stat.st_uid, stat.st_gid), (NOBODY, 0x7000_0005));
        IdMap::of_one_with_group(65_533, 65_533, 0x7000_0005).unwrap_err();

        // Root has every capability here, and none that goes by an owner who has no id.
        let refused = openat(&mount, "of-root", OFlags::RDONLY, Mode::empty()).unwrap_err();
        assert_eq!(refused, rustix::io::Errno::ACCESS);
        let twice = map.apply(&mount).unwrap_err();
        assert_eq!(twice.raw_os_error(), Some(nix::libc::EPERM), "{twice}");
    }
}
