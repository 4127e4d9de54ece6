//! Status of the process, as its page `/status` has it.

use serde::{Deserialize, Serialize};

use crate::gpu_mirror::GpuMirrorStatus;

/// Answer to `GET /status` of `mirror`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MirrorStatus {
    /// Name of this run of the process: its start and its process id. The next one has another.
    pub process: String,
    /// State of the GPU mirror.
    pub mirror: GpuMirrorStatus,
}
