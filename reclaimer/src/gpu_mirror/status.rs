//! Report of the GPU mirror's state.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tetris_gpu_server::Report;
use tetris_gpu_server::residency::TenantId;

use super::Implementation;

/// State of the GPU mirror at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuMirrorStatus {
    /// Kind of its devices.
    pub implementation: Implementation,
    /// True if it serves. Without it clients load into host memory.
    pub running: bool,
    /// The reason that it does not serve.
    pub reason: Option<String>,
    /// Devices asked for and could not be used when the mirror started.
    pub missing_devices: usize,
    /// State of the server; empty when there is none.
    pub report: Report,
    /// Names of the stores that it serves.
    pub stores: BTreeMap<TenantId, String>,
}
