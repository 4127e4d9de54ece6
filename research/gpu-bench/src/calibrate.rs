//! Calibration of the group size of copies.

use std::sync::Arc;
use std::time::Instant;

use tetris_gpu_device::{HostSlice, MemoryKind, Protection};
use tetris_gpu_server::copy::{DEFAULT_GROUP_BYTES, DEFAULT_SIZES, best_group_bytes, measure};

use crate::BenchError;
use crate::backend::Backend;

/// Number of bytes copied for each size, as in the daemon.
const BYTES: u64 = 512 << 20;
/// The same on the simulated device, whose figures say nothing about sizes.
pub(crate) const SIMULATED_BYTES: u64 = 64 << 20;

/// Measures the elbow on this device. Returns a group size in bytes.
pub(crate) fn group_bytes<D: Backend>(device: &D) -> Result<u64, BenchError> {
    let bytes = match D::KIND {
        MemoryKind::Host => SIMULATED_BYTES,
        MemoryKind::CudaDescriptors | MemoryKind::CudaHandles => BYTES,
    };
    let chunk = device.create(bytes)?;
    let mapping = device.map(device.reserve(bytes)?, &chunk, Protection::ReadWrite)?;
    let from = HostSlice::whole(Arc::new(device.pinned(bytes as usize)?));
    let start = Instant::now();
    let samples = measure(
        device,
        &Arc::new(mapping),
        &from,
        &DEFAULT_SIZES,
        &mut || start.elapsed(),
    )?;
    Ok(best_group_bytes(&samples).unwrap_or(DEFAULT_GROUP_BYTES))
}
