//! Small immutable files: manifests, identities, derived records and the header (LAYOUT.md 5.4).

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, openat};
use nix::sys::stat::{Mode, fchmod};
use nix::unistd::{LinkatFlags, UnlinkatFlags, linkat, unlinkat};

use crate::crash;
use crate::error::{IoError, PublishError};
use crate::interrupted::retried;
use crate::store::{Folder, Store};

/// Opens an unnamed file in `dir` for reading and writing (P1).
pub(crate) fn unnamed(dir: &OwnedFd, path: &Path) -> Result<File, IoError> {
    let flags = OFlag::O_TMPFILE | OFlag::O_RDWR | OFlag::O_CLOEXEC;
    retried(|| openat(dir, ".", flags, Mode::S_IRUSR | Mode::S_IWUSR))
        .map(File::from)
        .map_err(|error| IoError::new("stage", path, error))
}

/// Makes `file` read-only for everyone, whatever the umask is (P5).
pub(crate) fn seal(file: &File, path: &Path) -> Result<(), IoError> {
    fchmod(file, Mode::from_bits_truncate(0o444)).map_err(|error| IoError::new("seal", path, error))
}

/// Gives an unnamed file a name, unless the name is taken (P7). `true` when it got it.
pub(crate) fn link(file: &File, dir: &OwnedFd, name: &str, path: &Path) -> Result<bool, IoError> {
    let own = format!("/proc/self/fd/{}", file.as_raw_fd());
    let linked = match linkat(
        AT_FDCWD,
        own.as_str(),
        dir,
        name,
        LinkatFlags::AT_SYMLINK_FOLLOW,
    ) {
        // No /proc in this container: by descriptor, which kernels before 6.10 grant to few.
        Err(Errno::ENOENT) => linkat(file, "", dir, name, AtFlags::AT_EMPTY_PATH),
        other => other,
    };
    match linked {
        Ok(()) => Ok(true),
        Err(Errno::EEXIST) => Ok(false),
        Err(error) => Err(IoError::new("link", path, error)),
    }
}

/// Writes `bytes` to a new file `name` in `dir`; `false` when the name is taken.
pub(crate) fn link_new(
    dir: &OwnedFd,
    dir_path: &Path,
    name: &str,
    bytes: &[u8],
) -> Result<bool, IoError> {
    let path = dir_path.join(name);
    let mut file = unnamed(dir, &path)?;
    crash::passed("record P1");
    file.write_all(bytes)
        .map_err(|error| IoError::new("write", &path, error))?;
    crash::passed("record P3");
    seal(&file, &path)?;
    crash::passed("record P5");
    let linked = link(&file, dir, name, &path)?;
    crash::passed("record P7");
    Ok(linked)
}

impl Store {
    /// Publishes a record; an existing one of the same name stays.
    pub(crate) fn link_record(
        &self,
        folder: Folder,
        name: &str,
        bytes: &[u8],
    ) -> Result<bool, PublishError> {
        self.require_writable()?;
        let dir = self.root().join(folder.name());
        Ok(link_new(self.folder(folder), &dir, name, bytes)?)
    }

    /// Publishes a record in the place of any other of the same name.
    pub(crate) fn replace_record(
        &self,
        folder: Folder,
        name: &str,
        bytes: &[u8],
    ) -> Result<(), PublishError> {
        // Several processes may do this at once. Each unlinks at most what it lost against, and
        // any of the records is true; so a few rounds are plenty, and losing them all is no harm.
        for _ in 0..4 {
            if self.link_record(folder, name, bytes)? {
                return Ok(());
            }
            if self
                .read_record(folder, name, bytes.len() as u64)?
                .as_deref()
                == Some(bytes)
            {
                return Ok(());
            }
            self.unlink_record(folder, name)?;
            crash::passed("record unlinked");
        }
        Ok(())
    }

    /// Reads a record of at most `limit` bytes; `None` when there is none. A longer one is cut off
    /// one byte behind the limit, which no decoder accepts.
    pub(crate) fn read_record(
        &self,
        folder: Folder,
        name: &str,
        limit: u64,
    ) -> Result<Option<Vec<u8>>, IoError> {
        let path = || self.path(folder, name);
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let file = match retried(|| openat(self.folder(folder), name, flags, Mode::empty())) {
            Ok(fd) => File::from(fd),
            Err(Errno::ENOENT) => return Ok(None),
            Err(error) => return Err(IoError::new("open", path(), error)),
        };
        let mut bytes = Vec::new();
        file.take(limit.saturating_add(1))
            .read_to_end(&mut bytes)
            .map_err(|error| IoError::new("read", path(), error))?;
        Ok(Some(bytes))
    }

    /// Removes a record if it is there.
    pub(crate) fn unlink_record(&self, folder: Folder, name: &str) -> Result<bool, IoError> {
        match unlinkat(self.folder(folder), name, UnlinkatFlags::NoRemoveDir) {
            Ok(()) => Ok(true),
            Err(Errno::ENOENT) => Ok(false),
            Err(error) => Err(IoError::new("unlink", self.path(folder, name), error)),
        }
    }

    /// Notes that a record was used now, where this process may (its owner may), in its modification
    /// time: the access time moves whenever somebody merely lists the store.
    pub(crate) fn touch_record(&self, folder: Folder, name: &str) {
        use nix::sys::stat::{UtimensatFlags, utimensat};
        use nix::sys::time::TimeSpec;
        // A reader with a read-only mount cannot; the reclaimer then goes by the locks it sees.
        let _not_permitted = utimensat(
            self.folder(folder).as_fd(),
            name,
            &TimeSpec::UTIME_OMIT,
            &TimeSpec::UTIME_NOW,
            UtimensatFlags::NoFollowSymlink,
        );
    }
}
