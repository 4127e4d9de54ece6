//! The identity of a file by `fstat`.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

/// A file and its version, by the fields of `fstat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileIdentity {
    /// Device of the file system.
    pub dev: u64,
    /// Inode number.
    pub ino: u64,
    /// Length in bytes.
    pub size: u64,
    /// Last modification: seconds since the epoch and nanoseconds.
    pub mtime: (i64, i64),
    /// Last change of content or attributes: seconds since the epoch and nanoseconds.
    pub ctime: (i64, i64),
}

impl FileIdentity {
    /// The identity of an open file.
    pub fn of(metadata: &Metadata) -> Self {
        Self {
            dev: metadata.dev(),
            ino: metadata.ino(),
            size: metadata.size(),
            mtime: (metadata.mtime(), metadata.mtime_nsec()),
            ctime: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}
