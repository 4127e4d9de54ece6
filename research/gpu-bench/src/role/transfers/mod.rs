//! Copies to the device: the mirror's, and plain copies from pinned memory.

mod target;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use tetris_gpu_server::copy::Executor;
use tetris_store_layout::Store;

use self::target::Target;
use super::serve::executor;
use crate::BenchError;
use crate::backend::{Backend, DeviceChoice};
use crate::model::BenchModel;
use crate::process::Parent;

/// Parameters of such a process.
#[derive(Debug, Serialize, Deserialize)]
pub struct TransfersJob {
    /// The store.
    pub store: PathBuf,
    /// The model to copy.
    pub model: BenchModel,
    /// Length of chunks, in bytes.
    pub chunk_bytes: u64,
    /// Group size of copies, in bytes.
    pub group_bytes: u64,
}

/// Result of the first copy, before the rounds.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct First {
    /// Time of the first copy from the store in seconds, through pinned buffers that were made
    /// before.
    pub copy_s: f64,
    /// Time in which the driver then registered the store's pages, in seconds.
    pub register_s: f64,
    /// Number of bytes that the next copy took from the store's own pages; the rest went through
    /// pinned buffers.
    pub direct_bytes: u64,
}

/// Times of the kinds of copies, in seconds.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Round {
    /// From pinned memory, with `cuMemcpyHtoDAsync` only.
    pub pinned_s: f64,
    /// From the store's registered pages.
    pub direct_s: f64,
    /// From pages mapped before and unmapped afterwards, like a first load of the mirror.
    pub mapping_s: f64,
    /// Through the ring of pinned buffers.
    pub staged_s: f64,
}

/// Runs a round of copies at each request of the parent.
pub fn run<D: Backend>(
    choice: DeviceChoice,
    job: &TransfersJob,
    parent: &mut Parent,
) -> Result<(), BenchError> {
    let device = Arc::new(D::open(choice)?);
    let store = Store::open(&job.store)?;
    let target = Target::new(Arc::clone(&device), &store, job)?;
    let new = |limit| -> Result<_, BenchError> {
        let config = executor(job.group_bytes, limit)?;
        Ok(Executor::new(Arc::clone(&device), config))
    };
    let all = job.model.bytes();
    let (mut direct, mut staged) = (new(all)?, new(0)?);
    direct.prepare()?;
    let (copy_s, _) = timed(|| target.load(&mut direct))?;
    let (register_s, ()) = timed(|| {
        direct.registrar().register_all();
        Ok(())
    })?;
    let report = target.load(&mut direct)?;
    // The other executor creates its streams and buffers, and so do plain copies.
    target.load(&mut staged)?;
    target.copy_pinned()?;
    let direct_bytes = report.direct_bytes;
    parent.tell(&First {
        copy_s,
        register_s,
        direct_bytes,
    })?;
    while parent.wait() {
        let (pinned_s, ()) = timed(|| target.copy_pinned())?;
        let (direct_s, _) = timed(|| target.load(&mut direct))?;
        let (staged_s, _) = timed(|| target.load(&mut staged))?;
        let (mapping_s, ()) = timed(|| target.load_mapping(&mut staged, &store, job))?;
        parent.tell(&Round {
            pinned_s,
            direct_s,
            mapping_s,
            staged_s,
        })?;
    }
    Ok(())
}

fn timed<T>(run: impl FnOnce() -> Result<T, BenchError>) -> Result<(f64, T), BenchError> {
    let start = Instant::now();
    let done = run()?;
    Ok((start.elapsed().as_secs_f64(), done))
}
