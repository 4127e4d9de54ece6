//! A process that attaches a model, and copies as many bytes for comparison.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tetris_gpu_client::Acquired;
use tetris_gpu_device::{HostSlice, Protection};
use tetris_store_layout::ObjectRef;

use super::turns::{Turn, attach};
use crate::BenchError;
use crate::backend::{Backend, DeviceChoice};
use crate::model::BenchModel;
use crate::process::Parent;
use crate::timeout::LONG;

/// Maximum length of the pinned buffer and its destination in bytes; a longer model reuses them.
pub const BUFFER_BYTES: u64 = 1 << 30;
/// Granule of device memory in bytes, on every device known so far.
pub const GRANULE_BYTES: u64 = 2 << 20;

/// Parameters of such a process.
#[derive(Debug, Serialize, Deserialize)]
pub struct AttachJob {
    /// The server.
    pub socket: PathBuf,
    /// The model that it attaches.
    pub model: BenchModel,
}

/// Times of such a process, in seconds.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Attached {
    /// Loading the driver and creating the process's context.
    pub context_s: f64,
    /// Attach of the model, for the first time in this process.
    pub first: Turn,
    /// Attach of the same model after its release.
    pub again: Turn,
    /// Copy of as many bytes from pinned memory.
    pub copy_s: f64,
}

/// Length of each buffer for copying a model, in bytes.
pub fn buffer_bytes(model_bytes: u64) -> u64 {
    let bytes = model_bytes.min(BUFFER_BYTES);
    bytes.next_multiple_of(GRANULE_BYTES)
}

/// Attaches and copies.
pub fn run<D: Backend>(
    choice: DeviceChoice,
    job: &AttachJob,
    parent: &mut Parent,
) -> Result<(), BenchError> {
    let start = Instant::now();
    let device = Arc::new(D::open(choice)?);
    // The driver creates the context at the first use.
    device.info()?;
    let context_s = start.elapsed().as_secs_f64();
    let (held, first) = attach(&device, &job.socket, &job.model)?;
    check(&held, &job.model)?;
    held.release()?;
    let (held, again) = attach(&device, &job.socket, &job.model)?;
    held.release()?;
    let copy_s = copy(&*device, job.model.bytes())?.as_secs_f64();
    parent.tell(&Attached {
        context_s,
        first,
        again,
        copy_s,
    })
}

/// Reads the smallest object back, to check that the mapping is the model.
fn check<D: Backend>(held: &Acquired<D>, model: &BenchModel) -> Result<(), BenchError> {
    let objects = model.tensors.iter().map(|tensor| tensor.object);
    let Some(smallest) = objects.min_by_key(|object| object.len) else {
        return Ok(());
    };
    if ObjectRef::of(&held.read(&smallest.id, LONG)?) == smallest {
        return Ok(());
    }
    let id = smallest.id;
    Err(BenchError::Bug(format!(
        "expected the bytes of {id} on the device, found others"
    )))
}

/// Copies `bytes` from pinned memory. Allocates and touches all memory before the measurement.
fn copy<D: Backend>(device: &D, bytes: u64) -> Result<Duration, BenchError> {
    let length = buffer_bytes(bytes);
    let from = HostSlice::whole(Arc::new(device.pinned(length as usize)?));
    let chunk = device.create(length)?;
    let to = device.map(device.reserve(length)?, &chunk, Protection::ReadWrite)?;
    let to = Arc::new(to);
    let mut stream = device.stream()?;
    device.copy_in(&mut stream, &to, 0, from.clone())?;
    device.synchronize(&mut stream)?;
    let start = Instant::now();
    let mut left = bytes;
    while left > 0 {
        let part = left.min(length);
        device.copy_in(&mut stream, &to, 0, from.part(0, part)?)?;
        left -= part;
    }
    device.synchronize(&mut stream)?;
    Ok(start.elapsed())
}
