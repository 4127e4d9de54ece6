//! Measurement of samples for [`super::elbow`].

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::Sample;
use crate::memory::{DeviceMemory, HostSlice, Mapped, MemoryError};

/// Default sizes in bytes: 64 KiB to 64 MiB, in powers of two.
pub const DEFAULT_SIZES: [u64; 11] = [
    64 << 10,
    128 << 10,
    256 << 10,
    512 << 10,
    1 << 20,
    2 << 20,
    4 << 20,
    8 << 20,
    16 << 20,
    32 << 20,
    64 << 20,
];

/// Maximum number of copies in flight, as in a transfer.
const IN_FLIGHT: usize = 8;

/// Copies `from`, which should be pinned, to the start of `to`, once for each of `sizes`, and
/// measures the throughput with the clock `now`. Copies once more before the first sample, because
/// the first use of a stream is slow.
pub fn measure<D: DeviceMemory>(
    device: &D,
    to: &Arc<D::Mapping>,
    from: &HostSlice,
    sizes: &[u64],
    now: &mut dyn FnMut() -> Duration,
) -> Result<Vec<Sample>, MemoryError> {
    let total = to.bytes().min(from.bytes().len() as u64);
    let mut stream = device.stream()?;
    if let Some(size) = sizes.first() {
        copy_all(device, &mut stream, to, &from.part(0, total)?, *size)?;
    }
    let mut samples = Vec::with_capacity(sizes.len());
    for size in sizes {
        let start = now();
        copy_all(device, &mut stream, to, &from.part(0, total)?, *size)?;
        let nanoseconds = now().saturating_sub(start).as_nanos().max(1);
        let rate = u128::from(total) * 1_000_000_000 / nanoseconds;
        samples.push(Sample {
            group_bytes: *size,
            bytes_per_second: u64::try_from(rate).unwrap_or(u64::MAX),
        });
    }
    Ok(samples)
}

fn copy_all<D: DeviceMemory>(
    device: &D,
    stream: &mut D::Stream,
    to: &Arc<D::Mapping>,
    from: &HostSlice,
    size: u64,
) -> Result<(), MemoryError> {
    let total = from.bytes().len() as u64;
    let mut events = VecDeque::new();
    let mut at = 0;
    while at < total {
        let len = size.max(1).min(total - at);
        device.copy_in(stream, to, at, from.part(at, len)?)?;
        events.push_back(device.record(stream)?);
        at += len;
        if events.len() >= IN_FLIGHT
            && let Some(oldest) = events.pop_front()
        {
            device.wait(&oldest)?;
            device.settle(stream)?;
        }
    }
    device.synchronize(stream)
}
