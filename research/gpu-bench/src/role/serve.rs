//! A server of the mirror.

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tetris_gpu_server::arena::ArenaConfig;
use tetris_gpu_server::copy::ExecutorConfig;
use tetris_gpu_server::residency::{self, DeviceId, TenantId};
use tetris_gpu_server::{ServedDevice, Server, ServerConfig};
use tetris_store_layout::Store;

use crate::BenchError;
use crate::backend::{Backend, DeviceChoice};
use crate::process::Parent;

const DEVICE: DeviceId = DeviceId(0);
/// Parameters of the daemon's executor.
const STREAMS: usize = 2;
const SLOTS: usize = 16;
const PIN_LIMIT_BYTES: u64 = 16 << 30;

/// Parameters of a server.
#[derive(Debug, Serialize, Deserialize)]
pub struct ServeJob {
    /// The store.
    pub store: PathBuf,
    /// The server's socket.
    pub socket: PathBuf,
    /// Limit of its device memory, in bytes.
    pub capacity_bytes: u64,
    /// Length of chunks, in bytes.
    pub chunk_bytes: u64,
    /// Group size of copies, in bytes.
    pub group_bytes: u64,
}

/// Usage and counters of a server.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Usage {
    /// Length of its chunks, in bytes.
    pub created_bytes: u64,
    /// Length of the objects that clients hold, in bytes.
    pub held_bytes: u64,
    /// Number of bytes copied from the store's own pages.
    pub direct_bytes: u64,
    /// Number of bytes copied through pinned buffers.
    pub staged_bytes: u64,
    /// Number of evicted models.
    pub evicted: u64,
    /// Number of created chunks.
    pub chunks_created: u64,
}

/// Parameters of the mirror's executor: the daemon's, apart from the sizes.
pub fn executor(group_bytes: u64, pin_limit_bytes: u64) -> Result<ExecutorConfig, BenchError> {
    let config = ExecutorConfig::try_new(STREAMS, SLOTS, group_bytes, pin_limit_bytes);
    config.map_err(|error| BenchError::Bug(error.to_string()))
}

/// Parameters of arenas with chunks of `chunk_bytes`.
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

/// Serves until the parent ends this process.
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
