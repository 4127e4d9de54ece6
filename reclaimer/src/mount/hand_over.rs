//! Handing a tmpfs with its stores over to another user: after an upgrade from a daemon that ran as
//! root, whose files the next one could not free.
//!
//! Processes that map objects notice nothing: mappings, locks and names stay. The walk goes by
//! descriptors, follows no link, and leaves other mounts below alone.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, ResolveFlags, Stat, Uid, chownat, fchown,
    fstat, openat, openat2, statat,
};
use rustix::io::Errno;
use tetris_store_layout::SOCKET_USER;

/// Most directories within each other. A store has two.
const DEPTH: u32 = 32;

/// Gives the tmpfs at `path`, and all files on it, to `user` as user and group. The root comes
/// last: a walk that was cut short is made again. Returns the number of files; 0 if the root
/// belongs to `user` already.
pub(super) fn hand_over(path: &Path, user: u32) -> io::Result<u64> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let root = openat(CWD, path, flags, Mode::empty())?;
    if belongs_to(&fstat(&root)?, user) {
        return Ok(0);
    }
    let mut walk = Walk { user, given: 0 };
    walk.directory(&root, DEPTH)?;
    Ok(walk.given)
}

struct Walk {
    user: u32,
    given: u64,
}

impl Walk {
    /// Gives a directory with its content.
    fn directory(&mut self, dir: impl AsFd, depth: u32) -> io::Result<()> {
        for entry in Dir::read_from(&dir)? {
            let entry = entry?;
            let name = entry.file_name();
            if !matches!(name.to_bytes(), b"." | b"..") {
                match self.entry(dir.as_fd(), name, depth) {
                    // It was removed meanwhile.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    given => given?,
                }
            }
        }
        if !belongs_to(&fstat(&dir)?, self.user) {
            let (uid, gid) = self.ids();
            fchown(&dir, uid, gid)?;
            self.given += 1;
        }
        Ok(())
    }

    fn entry(&mut self, dir: impl AsFd, name: &std::ffi::CStr, depth: u32) -> io::Result<()> {
        let stat = statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let below =
                    ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
                let below = match openat2(&dir, name, flags, Mode::empty(), below) {
                    // Another file system is mounted there.
                    Err(Errno::XDEV) => return Ok(()),
                    below => below?,
                };
                let depth = depth.checked_sub(1);
                let depth = depth.ok_or_else(|| io::Error::other("directories are too deep"))?;
                self.directory(&below, depth)
            }
            // Pods see no other owner.
            FileType::Socket if stat.st_uid == SOCKET_USER => Ok(()),
            _ if belongs_to(&stat, self.user) => Ok(()),
            _ => {
                let (uid, gid) = self.ids();
                chownat(&dir, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW)?;
                self.given += 1;
                Ok(())
            }
        }
    }

    fn ids(&self) -> (Option<Uid>, Option<Gid>) {
        (
            Some(Uid::from_raw(self.user)),
            Some(Gid::from_raw(self.user)),
        )
    }
}

fn belongs_to(found: &Stat, user: u32) -> bool {
    (found.st_uid, found.st_gid) == (user, user)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, lchown, symlink};
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn all_below_is_given_and_nothing_that_a_link_leads_to() {
        let outside = tempfile::tempdir().unwrap();
        let dir = tempfile::tempdir().unwrap();
        if !nix::unistd::geteuid().is_root() {
            use std::io::Write as _;
            let _ = writeln!(io::stderr(), "SKIPPED: needs root to give files away");
            return;
        }
        let (root, secret) = (dir.path(), outside.path().join("secret"));
        fs::write(&secret, "x").unwrap();
        fs::create_dir_all(root.join("store/objects-v1")).unwrap();
        fs::write(root.join("store/objects-v1/a"), "x").unwrap();
        symlink(&secret, root.join("store/link")).unwrap();
        symlink(outside.path(), root.join("elsewhere")).unwrap();
        let socket = root.join("store/daemon");
        drop(UnixListener::bind(&socket).unwrap());
        lchown(&socket, Some(SOCKET_USER), Some(SOCKET_USER)).unwrap();
        let owner = |path: &Path| {
            let stat = fs::symlink_metadata(path).unwrap();
            (stat.uid(), stat.gid())
        };
        // The root, the store, its folder, the object and the two links.
        assert_eq!(hand_over(root, 9460).unwrap(), 6);
        for name in ["", "store", "store/objects-v1", "store/objects-v1/a"] {
            assert_eq!(owner(&root.join(name)), (9460, 9460), "{name}");
        }
        for name in ["store/link", "elsewhere"] {
            assert_eq!(owner(&root.join(name)), (9460, 9460), "{name}");
        }
        assert_eq!(owner(&secret), (0, 0));
        assert_eq!(owner(outside.path()), (0, 0));
        assert_eq!(owner(&socket), (SOCKET_USER, SOCKET_USER));
        lchown(root.join("store"), Some(0), Some(0)).unwrap();
        assert_eq!(hand_over(root, 9460).unwrap(), 0, "it is done once");
    }
}
