//! Errors of transfers.

use tetris_store_layout::ObjectId;
use thiserror::Error;

use crate::arena::ChunkId;
use tetris_gpu_device::MemoryError;

/// The reason a transfer failed. Its destination is undefined, except for objects reported as
/// ready.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CopyError {
    /// The object is not in host memory.
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

/// A parameter of an executor is out of range.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("expected {expected}, found {found}; choose another number")]
pub struct ExecutorConfigError {
    /// The valid range.
    pub(super) expected: &'static str,
    /// The given value.
    pub(super) found: u64,
}
