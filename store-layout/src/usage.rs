//! The room of a store, and its use.

use nix::sys::statvfs::fstatvfs;

use crate::error::IoError;
use crate::folder::Folder;
use crate::interrupted::retried;
use crate::store::Store;

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

/// A record on a tmpfs takes whole pages of this length, in bytes.
const PAGE: u64 = 4096;

/// The room that records take, or may take: manifests, identities and derived records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RecordUse {
    /// Memory that they occupy, in bytes.
    pub bytes: u64,
    /// Number of records, each of which takes an inode.
    pub files: u64,
}

impl RecordUse {
    /// The room for a manifest of `len` bytes, together with one identity.
    pub fn of_manifest(len: u64) -> Self {
        let pages = len.checked_next_multiple_of(PAGE).unwrap_or(u64::MAX);
        Self {
            bytes: pages.saturating_add(PAGE),
            files: 2,
        }
    }

    /// The room for a derived record.
    pub fn of_derived() -> Self {
        Self {
            // A name may have 4,096 bytes.
            bytes: 2 * PAGE,
            files: 1,
        }
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(other.bytes),
            files: self.files.saturating_add(other.files),
        }
    }

    /// Returns true if neither number is above that of `limits`.
    pub fn is_within(self, limits: Self) -> bool {
        self.bytes <= limits.bytes && self.files <= limits.files
    }
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
