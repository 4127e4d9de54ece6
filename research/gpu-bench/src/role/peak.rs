//! The fastest plain copies from pinned memory, by size and number of streams.

use std::sync::Arc;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use tetris_gpu_device::{HostSlice, Protection};

use super::attach::buffer_bytes;
use crate::BenchError;
use crate::backend::{Backend, DeviceChoice};
use crate::process::Parent;

/// Sizes of a copy in bytes; those beyond the buffer's length are left out.
const SIZES: [u64; 5] = [1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20];
/// Numbers of streams.
const STREAMS: [usize; 2] = [1, 2];

/// Parameters of such a process.
#[derive(Debug, Serialize, Deserialize)]
pub struct PeakJob {
    /// Length of the model in bytes: the buffer is as long, up to 1 GiB.
    pub model_bytes: u64,
}

/// Rate of copies of one size on some streams.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PeakSample {
    /// Length of a copy, in bytes.
    pub copy_bytes: u64,
    /// Number of streams, which take turns.
    pub streams: usize,
    /// Throughput, in bytes per second.
    pub bytes_per_second: f64,
}

/// Copies the buffer in every way at each request of the parent.
pub fn run<D: Backend>(
    choice: DeviceChoice,
    job: &PeakJob,
    parent: &mut Parent,
) -> Result<(), BenchError> {
    let device = D::open(choice)?;
    let total = buffer_bytes(job.model_bytes);
    let from = HostSlice::whole(Arc::new(device.pinned(total as usize)?));
    let chunk = device.create(total)?;
    let to = device.map(device.reserve(total)?, &chunk, Protection::ReadWrite)?;
    let to = Arc::new(to);
    let mut streams = Vec::new();
    for _ in 0..STREAMS.len() {
        streams.push(device.stream()?);
    }
    // The first use of a stream is slow.
    copy::<D>(&device, &mut streams, &to, &from, total)?;
    parent.tell(&())?;
    while parent.wait() {
        let mut samples = Vec::new();
        for copy_bytes in SIZES.into_iter().filter(|size| *size <= total) {
            for count in STREAMS {
                let some = streams.get_mut(..count).unwrap_or_default();
                let start = Instant::now();
                copy::<D>(&device, some, &to, &from, copy_bytes)?;
                let seconds = start.elapsed().as_secs_f64().max(1e-9);
                samples.push(PeakSample {
                    copy_bytes,
                    streams: count,
                    bytes_per_second: total as f64 / seconds,
                });
            }
        }
        parent.tell(&samples)?;
    }
    Ok(())
}

/// Copies the buffer in parts, on the streams by turns, and waits.
fn copy<D: Backend>(
    device: &D,
    streams: &mut [D::Stream],
    to: &Arc<D::Mapping>,
    from: &HostSlice,
    copy_bytes: u64,
) -> Result<(), BenchError> {
    let total = from.bytes().len() as u64;
    let (count, mut at, mut turn) = (streams.len().max(1), 0, 0);
    while at < total {
        let len = copy_bytes.min(total - at);
        if let Some(stream) = streams.get_mut(turn % count) {
            device.copy_in(stream, to, at, from.part(at, len)?)?;
        }
        (at, turn) = (at + len, turn + 1);
    }
    for stream in streams {
        device.synchronize(stream)?;
    }
    Ok(())
}
