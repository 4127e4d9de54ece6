//! The outcome of a pull.

use std::time::Duration;

use tetris_store_layout::ManifestId;

use crate::listing::RemoteFile;

/// Way in which the content of a file was known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum KnownBy {
    /// By the SHA-256 that its source promises.
    Sha256,
    /// By its version at its source.
    Version,
    /// By the sidecar beside it.
    Sidecar,
    /// By the manifest that another node had for its SHA-256.
    Peer,
    /// It was read.
    Reading,
}

impl KnownBy {
    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Version => "version",
            Self::Sidecar => "sidecar",
            Self::Peer => "peer",
            Self::Reading => "reading",
        }
    }
}

/// A pulled file.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct FileReport {
    /// The file.
    pub file: RemoteFile,
    /// Way in which it was known.
    pub known_by: KnownBy,
    /// Its manifest; `None` for a file without content, of which the store has nothing.
    pub manifest: Option<ManifestId>,
    /// Bytes fetched from the source.
    pub fetched: u64,
    /// Number of its objects.
    pub objects: usize,
    /// Number of its objects that the store did not have.
    pub new_objects: usize,
}

/// The outcome of a pull.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PullReport {
    /// The source's name for this state of all files, e.g. a commit.
    pub revision: Option<String>,
    /// One for each file, in the order of their paths.
    pub files: Vec<FileReport>,
    /// Paths left out.
    pub left_out: Vec<String>,
    /// Bytes that came from the source: parts of files, and sidecars.
    pub fetched: u64,
    /// Bytes that came from the node's cold tier.
    pub restored: u64,
    /// Requests to the source.
    pub requests: u64,
    /// Time that it took.
    pub duration: Duration,
}
