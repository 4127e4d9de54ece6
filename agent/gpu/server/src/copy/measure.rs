//! Measurement of samples for [`super::elbow`].

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::Sample;
use tetris_gpu_device::{DeviceMemory, HostSlice, Mapped, MemoryError};

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

/// Maximum number of copies in flight on each stream.
const IN_FLIGHT: usize = 8;

/// Number of streams, as in a transfer.
const STREAMS: usize = 2;

/// Number of bytes copied before the first sample: the first use of a stream is slow.
const WARM_UP_BYTES: u64 = 16 << 20;

/// Copies `from`, which should be pinned, to the start of `to`, once for each of `sizes`, on two
/// streams by turns, and measures the throughput with the clock `now`.
pub fn measure<D: DeviceMemory>(
    device: &D,
    to: &Arc<D::Mapping>,
    from: &HostSlice,
    sizes: &[u64],
    now: &mut dyn FnMut() -> Duration,
) -> Result<Vec<Sample>, MemoryError> {
    let total = to.bytes().min(from.bytes().len() as u64);
    let mut streams = (0..STREAMS)
        .map(|_| device.stream())
        .collect::<Result<Vec<_>, _>>()?;
    if let Some(size) = sizes.first() {
        let warm_up = from.part(0, total.min(WARM_UP_BYTES))?;
        copy_all(device, &mut streams, to, &warm_up, *size)?;
    }
    let mut samples = Vec::with_capacity(sizes.len());
    for size in sizes {
        let start = now();
        copy_all(device, &mut streams, to, &from.part(0, total)?, *size)?;
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
    streams: &mut [D::Stream],
    to: &Arc<D::Mapping>,
    from: &HostSlice,
    size: u64,
) -> Result<(), MemoryError> {
    let total = from.bytes().len() as u64;
    let mut events = VecDeque::new();
    let (mut at, mut turn) = (0, 0);
    let in_flight = IN_FLIGHT * streams.len();
    while at < total {
        let number = turn % streams.len().max(1);
        let Some(stream) = streams.get_mut(number) else {
            break;
        };
        let len = size.max(1).min(total - at);
        device.copy_in(stream, to, at, from.part(at, len)?)?;
        events.push_back((number, device.record(stream)?));
        (at, turn) = (at + len, turn + 1);
        if events.len() >= in_flight
            && let Some((number, oldest)) = events.pop_front()
        {
            device.wait(&oldest)?;
            if let Some(stream) = streams.get_mut(number) {
                device.settle(stream)?;
            }
        }
    }
    streams
        .iter_mut()
        .try_for_each(|stream| device.synchronize(stream))
}
