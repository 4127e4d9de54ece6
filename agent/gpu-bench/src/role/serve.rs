//! A server of the mirror.

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tetris_gpu_mirror::arena::ArenaConfig;
use tetris_gpu_mirror::copy::ExecutorConfig;
use tetris_gpu_mirror::residency::{self, DeviceId, TenantId};
use tetris_gpu_mirror::server::{ServedDevice, Server, ServerConfig};
use tetris_store_layout::Store;

use crate::BenchError;
use crate::backend::{Backend, DeviceChoice};
use crate::process::Parent;

const DEVICE: DeviceId = DeviceId(0);
/// As in the daemon's executor.
const STREAMS: usize = 2;
const SLOTS: usize = 16;
const PIN_LIMIT_BYTES: u64 = 16 << 30;

/// What a server needs to know.
#[derive(Debug, Serialize, Deserialize)]
pub struct ServeJob {
    /// The store.
    pub store: PathBuf,
    /// Where clients connect.
    pub socket: PathBuf,
    /// What it may take of the device.
    pub capacity_bytes: u64,
    /// Length of chunks.
    pub chunk_bytes: u64,
    /// Size of groups.
    pub group_bytes: u64,
}

/// What a server holds and has done.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Usage {
    /// Bytes of its chunks.
    pub created_bytes: u64,
    /// Bytes of objects that clients hold.
    pub held_bytes: u64,
    /// Bytes that were copied from the store's own pages.
    pub direct_bytes: u64,
    /// Bytes that were copied through pinned buffers.
    pub staged_bytes: u64,
    /// Models that left the device for others.
    pub evicted: u64,
    /// Chunks that were made.
    pub chunks_created: u64,
}

/// The mirror's numbers, as the daemon has them but for the sizes.
pub fn executor(group_bytes: u64, pin_limit_bytes: u64) -> Result<ExecutorConfig, BenchError> {
    let config = ExecutorConfig::try_new(STREAMS, SLOTS, group_bytes, pin_limit_bytes);
    config.map_err(|error| BenchError::Bug(error.to_string()))
}

/// Sizes of arenas with chunks of this length.
pub fn arena(chunk_bytes: u64) -> Result<ArenaConfig, BenchError> {
    let standard = ArenaConfig::default();
    let arena = ArenaConfig::try_new(
        standard.granule_bytes(),
        chunk_bytes,
        standard.align_bytes(),
        standard.waste_percent(),
    );
    arena.map_err(|error| BenchError::Bug(error.to_string()))
}

/// Serves until the parent has no use for it.
pub fn run<D: Backend>(
    device: DeviceChoice,
    job: &ServeJob,
    parent: &mut Parent,
) -> Result<(), BenchError> {
    let store = Arc::new(Store::open(&job.store)?);
    let served = ServedDevice {
        id: DEVICE,
        device: Arc::new(D::open(device)?),
        capacity_bytes: job.capacity_bytes,
    };
    let config = ServerConfig {
        residency: residency::Config {
            arena: arena(job.chunk_bytes)?,
            ..residency::Config::default()
        },
        executor: executor(job.group_bytes, PIN_LIMIT_BYTES)?,
        ..ServerConfig::default()
    };
    let server = Server::start(vec![served], &config)?;
    server.serve(TenantId(0), store, None, &job.socket)?;
    parent.tell(&())?;
    while parent.wait() {
        let (usage, counters) = (server.usage(DEVICE).unwrap_or_default(), server.counters());
        parent.tell(&Usage {
            created_bytes: usage.created_bytes,
            held_bytes: usage.held_bytes,
            direct_bytes: counters.direct_bytes,
            staged_bytes: counters.staged_bytes,
            evicted: counters.evicted,
            chunks_created: counters.chunks_created,
        })?;
    }
    Ok(())
}
