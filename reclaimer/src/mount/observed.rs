//! Observation of the mount point.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, fstatvfs, openat};

use super::mountinfo::{MountEntry, is_mount_root, mount_of};

/// State of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ObservedPath {
    /// Nothing.
    Missing,
    /// Something that nothing can be mounted on, or that leads elsewhere.
    NotADirectory {
        /// Kind of the file.
        what: &'static str,
    },
    /// A directory on which nothing is mounted.
    Directory {
        /// True if a mount would hide nothing.
        empty: bool,
    },
    /// A directory on which something is mounted.
    Mounted {
        /// The mount.
        entry: Box<MountEntry>,
        /// Its size and use.
        room: TmpfsSize,
    },
}

/// Size and use of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TmpfsSize {
    /// Bytes of a block: sizes are rounded up to it.
    pub block: u64,
    /// Its size in bytes; 0 when it has no limit.
    pub bytes: u64,
    /// Bytes in use.
    pub bytes_used: u64,
    /// Number of files that it can have; 0 without a limit.
    pub inodes: u64,
    /// Number of files that it has.
    pub inodes_used: u64,
}

/// Looks at `path`.
pub fn observe(path: &Path) -> io::Result<ObservedPath> {
    let kind = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(ObservedPath::Missing),
        metadata => metadata?.file_type(),
    };
    if !kind.is_dir() {
        let what = if kind.is_symlink() {
            "a symbolic link"
        } else {
            "no directory"
        };
        return Ok(ObservedPath::NotADirectory { what });
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = File::from(openat(CWD, path, flags, Mode::empty())?);
    if !is_mount_root(&dir)? {
        let empty = fs::read_dir(path)?.next().is_none();
        return Ok(ObservedPath::Directory { empty });
    }
    let stat = fstatvfs(&dir)?;
    let room = TmpfsSize {
        block: stat.f_frsize,
        bytes: stat.f_blocks.saturating_mul(stat.f_frsize),
        bytes_used: (stat.f_blocks.saturating_sub(stat.f_bfree)).saturating_mul(stat.f_frsize),
        inodes: stat.f_files,
        inodes_used: stat.f_files.saturating_sub(stat.f_ffree),
    };
    let entry = Box::new(mount_of(&dir)?);
    Ok(ObservedPath::Mounted { entry, room })
}
