//! Orders to GPUs.

use super::model::ModelId;
use super::pool::Source;
use super::request::GpuRequest;
use super::topology::GpuId;

/// A request given to a GPU, which has nothing else to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// Request to execute.
    pub request: GpuRequest,
    /// GPU that executes it.
    pub gpu: GpuId,
    /// Load before the run. A hit has none.
    pub load: Option<Load>,
}

/// A load of a model into device memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Load {
    /// Models to remove first, whose own bytes make room.
    pub evicted: Vec<ModelId>,
    /// Origin of the bytes.
    pub source: Source,
    /// Number of bytes to move.
    pub bytes: u64,
    /// True if another GPU has the model: a *false miss* of GPU-FaaS.
    pub elsewhere: bool,
}
