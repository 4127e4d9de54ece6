//! Requests for GPUs.

use crate::id::RequestId;

use super::model::ModelId;

/// A request for a run of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuRequest {
    /// Number of the request.
    pub id: RequestId,
    /// Function that the request is for.
    pub function: u32,
    /// Model of the function.
    pub model: ModelId,
    /// Time of the arrival, in microseconds.
    pub arrived_us: u64,
    /// Time at which the result must be there, in microseconds, where the function has an SLO.
    pub deadline_us: Option<u64>,
}
