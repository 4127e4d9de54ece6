//! Refusals of requests for GPUs.

use thiserror::Error;

use super::model::ModelId;

/// The reason a request is not queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum GpuRejection {
    /// A request with this number waits or is executed.
    #[error("the request is already known; give each request a number of its own")]
    Known,
    /// No such model.
    #[error("model {} is unknown, expected a number below {models}", model.0)]
    UnknownModel {
        /// Number in the request.
        model: ModelId,
        /// Number of models.
        models: usize,
    },
    /// No GPU has that much memory.
    #[error(
        "the model has {bytes} bytes, expected {largest} at most, the memory of the largest GPU"
    )]
    TooLarge {
        /// Number of bytes of the model.
        bytes: u64,
        /// Memory of the largest GPU, in bytes.
        largest: u64,
    },
}
