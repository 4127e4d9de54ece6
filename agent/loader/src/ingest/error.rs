//! Errors of an ingest.

use tetris_store_layout::PublishError;
use thiserror::Error;

use crate::error::{LoadError, LoadFailure};

/// A file that was not published.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum IngestError {
    /// It was cancelled.
    #[error("nobody waits for the file any more")]
    Cancelled,
    /// The file changed meanwhile.
    #[error("the file changed while it was read; load it when it is written completely")]
    Changed,
    /// The file has too many tensors, or too long a header.
    #[error("the file has {found} {what}, at most {most} are taken")]
    TooLarge {
        /// The things counted.
        what: &'static str,
        /// Their number in the file.
        found: u64,
        /// The most that are taken.
        most: u64,
    },
    /// The file cannot be read, or is not valid.
    #[error(transparent)]
    Load(LoadError),
    /// The store did not take it.
    #[error("the store did not take the file: {0}")]
    NotTaken(String),
    /// The memory makes another object than the process claims.
    #[error(
        "the memory makes the object {found}, expected {expected}; seal it before its bytes are hashed"
    )]
    OtherBytes {
        /// The object that the process named.
        expected: String,
        /// The object that the bytes make.
        found: String,
    },
    /// The manifest of a file is not that of its header and its objects.
    #[error("the manifest is not true: {0}")]
    Claim(String),
    /// Objects of the manifest are not in the store.
    #[error("{missing} of {all} objects of the manifest are not in the store; publish them first")]
    NoObjects {
        /// Number of missing objects.
        missing: usize,
        /// Number of objects.
        all: usize,
    },
    /// The file has another SHA-256 than the process claims.
    #[error("expected SHA-256 {expected}, found {found}")]
    OtherDigest {
        /// The claimed digest.
        expected: String,
        /// The digest of the file's bytes.
        found: String,
    },
    /// It has no tensor bytes.
    #[error(
        "the file has no tensor bytes: there is nothing to share, and reading it costs no more than finding it"
    )]
    Empty,
    /// The store did not take its records.
    #[error(transparent)]
    Publish(#[from] PublishError),
}

impl From<LoadFailure> for IngestError {
    fn from(failure: LoadFailure) -> Self {
        match failure {
            LoadFailure::Changed => Self::Changed,
            LoadFailure::Load(error) => Self::Load(error),
        }
    }
}

impl From<LoadError> for IngestError {
    fn from(error: LoadError) -> Self {
        Self::Load(error)
    }
}

pub(super) fn too_large(what: &'static str, found: u64, most: u64) -> IngestError {
    IngestError::TooLarge { what, found, most }
}
