//! Calibration of the group size of copies.

use std::sync::Arc;
use std::time::Instant;

use tetris_gpu_mirror::copy::{DEFAULT_GROUP_BYTES, DEFAULT_SIZES, elbow, measure};
use tetris_gpu_mirror::memory::{HostSlice, Protection};

use crate::BenchError;
use crate::backend::Backend;

/// Number of bytes copied for each size.
const BYTES: u64 = 64 << 20;
/// Slack below the best throughput, as in the daemon.
const SLACK_PERCENT: u64 = 5;

/// Measures the elbow on this device. Returns a group size in bytes.
pub(crate) fn group_bytes<D: Backend>(device: &D) -> Result<u64, BenchError> {
    let chunk = device.create(BYTES)?;
    let mapping = device.map(device.reserve(BYTES)?, &chunk, Protection::ReadWrite)?;
    let from = HostSlice::whole(Arc::new(device.pinned(BYTES as usize)?));
    let start = Instant::now();
    let samples = measure(
        device,
        &Arc::new(mapping),
        &from,
        &DEFAULT_SIZES,
        &mut || start.elapsed(),
    )?;
    Ok(elbow(&samples, SLACK_PERCENT).unwrap_or(DEFAULT_GROUP_BYTES))
}
