//! How much room a store has.

use nix::sys::statvfs::fstatvfs;

use crate::error::IoError;
use crate::interrupted::retried;
use crate::store::{Folder, Store};

/// Room of the file system that a store lies on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Size of the file system in bytes.
    pub capacity: u64,
    /// Bytes that can still be allocated.
    pub free: u64,
    /// Files that can exist; 0 when the file system sets no limit.
    pub inodes: u64,
    /// Files that can still be made.
    pub inodes_free: u64,
}

impl Store {
    /// Room of the file system that the store lies on, which others may share.
    pub fn usage(&self) -> Result<Usage, IoError> {
        let stat = retried(|| fstatvfs(self.folder(Folder::Objects)))
            .map_err(|error| IoError::new("stat the file system of", self.root(), error))?;
        Ok(Usage {
            capacity: stat.blocks() * stat.fragment_size(),
            free: stat.blocks_available() * stat.fragment_size(),
            inodes: stat.files(),
            inodes_free: stat.files_available(),
        })
    }
}
