//! Errors of the store, one enum per kind of operation.

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use thiserror::Error;

use crate::file_system::FileSystemType;
use crate::version::FORMAT_VERSION;

/// The reason that a file is not opened, with the next step.
const LEASED: &str = "a process holds a lease on it; on the node, `grep LEASE /proc/locks` gives its process id: end it";

/// A system call failed on a path.
#[derive(Debug, Error)]
#[error("cannot {action} `{}`: {source}", path.display())]
pub struct IoError {
    /// The action, as a verb phrase: "open", "map".
    pub action: &'static str,
    /// The path that it was done to.
    pub path: PathBuf,
    /// The kernel's error.
    #[source]
    pub source: io::Error,
}

impl IoError {
    /// Wraps `source`, which happened while doing `action` to `path`.
    pub fn new(action: &'static str, path: impl AsRef<Path>, source: impl Into<io::Error>) -> Self {
        Self {
            action,
            path: path.as_ref().to_owned(),
            source: source.into(),
        }
    }

    /// Wraps the failure to open the file at `path` without waiting.
    pub(crate) fn of_open(path: impl AsRef<Path>, error: Errno) -> Self {
        let source = match error {
            Errno::EWOULDBLOCK => io::Error::new(io::ErrorKind::WouldBlock, LEASED),
            error => error.into(),
        };
        Self::new("open", path, source)
    }

    /// True if a process holds a lease on the file (fcntl(2)), so that it cannot be opened without waiting.
    pub fn is_leased(&self) -> bool {
        self.source.kind() == io::ErrorKind::WouldBlock
    }

    /// True when the store (or a quota on it) has no room left.
    pub fn is_full(&self) -> bool {
        matches!(
            self.errno(),
            Some(Errno::ENOSPC | Errno::EDQUOT | Errno::EFBIG)
        )
    }

    fn errno(&self) -> Option<Errno> {
        self.source.raw_os_error().map(Errno::from_raw)
    }
}

/// Opening, creating, listing or cleaning a store failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StoreError {
    /// A system call failed.
    #[error(transparent)]
    Io(#[from] IoError),
    /// The directory exists but holds no store.
    #[error("`{}` is not a tensor store: it has no `store` header", path.display())]
    NotAStore {
        /// The directory.
        path: PathBuf,
    },
    /// The store was made by another version of this software.
    #[error("tensor store `{}` has format version {found}, this build reads version {FORMAT_VERSION}", path.display())]
    Version {
        /// The store's directory.
        path: PathBuf,
        /// The version found in its header.
        found: u32,
    },
    /// The store header is damaged.
    #[error("header of tensor store `{}` is damaged: {source}", path.display())]
    Header {
        /// The header's path.
        path: PathBuf,
        /// The damage.
        source: DecodeError,
    },
    /// The directory is not on a tmpfs.
    #[error("`{}` is on {found}, a tensor store needs tmpfs; choose a directory on a tmpfs such as /dev/shm, or mount one with `tetris init`", path.display())]
    NotTmpfs {
        /// The directory.
        path: PathBuf,
        /// The type of its file system.
        found: FileSystemType,
    },
    /// The directory holds something else.
    #[error("`{}` is not empty and not a tensor store; choose an empty directory", path.display())]
    NotEmpty {
        /// The directory.
        path: PathBuf,
    },
    /// A record of the store is damaged.
    #[error("record `{}` is damaged: {source}", path.display())]
    Record {
        /// The record's path.
        path: PathBuf,
        /// The damage.
        source: DecodeError,
    },
}

impl StoreError {
    /// True if a process holds a lease on the file, so that it cannot be opened without waiting.
    pub fn is_leased(&self) -> bool {
        matches!(self, Self::Io(error) if error.is_leased())
    }
}

/// Publishing an object or a record failed. Nothing was left behind (INV-5).
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PublishError {
    /// A system call failed; [`IoError::is_full`] distinguishes a full store from the rest.
    #[error(transparent)]
    Io(#[from] IoError),
    /// The process can only read the store.
    #[error("tensor store `{}` is read-only for this process", path.display())]
    ReadOnly {
        /// The store's directory.
        path: PathBuf,
    },
    /// The bytes that were written are not as many as announced.
    #[error("object needs {expected} bytes, {found} were written")]
    Length {
        /// The length that staging was opened with.
        expected: u64,
        /// The bytes that the segments cover.
        found: u64,
    },
    /// The object was published, and then could not be mapped.
    #[error(transparent)]
    Map(#[from] MapError),
    /// The object kept disappearing, or disappeared once published: it was quarantined, or something removes
    /// files of this store without the protocol.
    #[error("object `{}` disappears when it is published; is it being quarantined, or is something deleting files of the store?", path.display())]
    Vanished {
        /// The object's path.
        path: PathBuf,
    },
}

impl PublishError {
    /// True when the store has no room left for the object.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Io(error) if error.is_full())
    }
}

/// Mapping an object failed. An absent object is not an error.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MapError {
    /// A system call failed.
    #[error(transparent)]
    Io(#[from] IoError),
    /// Something else has the object's name.
    #[error("object `{}` is damaged: expected a regular file of {expected} bytes, found {found}; run `tetris verify --quarantine`", path.display())]
    Damaged {
        /// The object's path.
        path: PathBuf,
        /// Expected length.
        expected: u64,
        /// The thing found, in words.
        found: String,
    },
}

impl MapError {
    /// True if a process holds a lease on the object, so that it cannot be opened without waiting.
    pub fn is_leased(&self) -> bool {
        matches!(self, Self::Io(error) if error.is_leased())
    }
}

/// Bytes are not a valid record or header.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// Fewer bytes than the structure needs.
    #[error("{field} needs {expected} bytes, {found} are there")]
    Short {
        /// The structure.
        field: &'static str,
        /// Bytes needed.
        expected: u64,
        /// Bytes there.
        found: u64,
    },
    /// The first bytes are those of something else.
    #[error("magic is {found:?}, expected {expected:?}")]
    Magic {
        /// The expected magic.
        expected: String,
        /// The bytes found, printable ones as such.
        found: String,
    },
    /// The record has another version.
    #[error("format version is {found}, expected {FORMAT_VERSION}")]
    Version {
        /// The version found.
        found: u32,
    },
    /// A checksum or digest does not match.
    #[error("checksum of {field} is {found}, expected {expected}")]
    Checksum {
        /// The protected structure.
        field: &'static str,
        /// The value stated.
        expected: String,
        /// The value computed.
        found: String,
    },
    /// An identity record of a kind that is not used any more.
    #[error("identity kind {found} is retired; `tetris gc` removes the record")]
    Retired {
        /// The kind.
        found: u32,
    },
    /// A field has a value that it cannot have.
    #[error("{field} is {found}, expected {expected}")]
    Field {
        /// The field.
        field: &'static str,
        /// Values that it may have.
        expected: String,
        /// The value that it has.
        found: String,
    },
}

impl DecodeError {
    pub(crate) fn field(field: &'static str, expected: impl Display, found: impl Display) -> Self {
        Self::Field {
            field,
            expected: expected.to_string(),
            found: found.to_string(),
        }
    }
}
