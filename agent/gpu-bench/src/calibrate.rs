//! The size of the groups that copies are made in.

use std::sync::Arc;
use std::time::Instant;

use tetris_gpu_mirror::copy::{DEFAULT_GROUP_BYTES, DEFAULT_SIZES, elbow, measure};
use tetris_gpu_mirror::memory::{HostSlice, Protection};

use crate::BenchError;
use crate::backend::Backend;

/// What is copied for each size.
const BYTES: u64 = 64 << 20;
/// As the daemon has it: all but so much of the best throughput.
const SLACK_PERCENT: u64 = 5;

/// The elbow of a calibration run on this device.
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
