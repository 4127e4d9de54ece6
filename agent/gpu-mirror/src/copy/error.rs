//! Why copies fail.

use tetris_store_layout::ObjectId;
use thiserror::Error;

use crate::arena::ChunkId;
use crate::memory::MemoryError;

/// A transfer failed. What it should have written is undefined, apart from objects reported as ready.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CopyError {
    /// Nobody has the object in host memory.
    #[error("expected object {object} in the store, found nothing; load the model again")]
    NoSource {
        /// The object.
        object: ObjectId,
    },
    /// The chunk is not mapped.
    #[error(
        "expected {chunk:?} to be mapped, found it missing; create the admission's chunks first"
    )]
    NoTarget {
        /// The chunk.
        chunk: ChunkId,
    },
    /// The device failed.
    #[error(transparent)]
    Memory(#[from] MemoryError),
}

/// Numbers that an executor cannot work with.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("expected {expected}, found {found}; choose another number")]
pub struct ExecutorConfigError {
    /// What would do.
    pub(super) expected: &'static str,
    /// What was given.
    pub(super) found: u64,
}
