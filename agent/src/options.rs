//! Options of a load.

use std::num::NonZeroUsize;
use std::time::Duration;

use tetris_loader::ProgressFn;
use tetris_store_layout::Access;

/// Longest wait for another process that reads the same file at the same time. A 100 GB model needs
/// about half a minute; after the wait, this process hashes the file as well.
pub const DEFAULT_WAIT: Duration = Duration::from_mins(1);

/// Longest wait for the node daemon to make room in a full store. Long for a daemon that works,
/// short beside the load of a model. After it, this process reclaims by itself.
pub const DEFAULT_ROOM_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest wait for each message of the node daemon while it publishes a file for this process. It
/// sends several per second while it reads.
pub const DEFAULT_BROKER_TIMEOUT: Duration = Duration::from_secs(30);

/// Smallest file in bytes loaded through the store by default: from here on, a tensor is its own object
/// (LAYOUT.md 7).
///
/// Below, attaching a file takes longer than reading it, and a page for it and one for its records is what it saves.
pub const DEFAULT_MIN_SHARED_BYTES: u64 = tetris_store_layout::SMALL_TENSOR;

/// Options of a load. The default suits a server.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LoadOptions {
    /// Access of the mappings of tensors; read-only by default.
    pub access: Access,
    /// Fill the page tables at once, so that the first pass does not fault. Off by default: a server
    /// that touches everything pays the same later, one that does not saves it.
    pub prefault: bool,
    /// Hash the file even if it is known. Off by default.
    pub ignore_identity: bool,
    /// Threads of a cold load; by default one per core that the process may use.
    pub threads: Option<NonZeroUsize>,
    /// Longest wait for another process that loads the same file; see [`DEFAULT_WAIT`].
    pub wait: Duration,
    /// Compute the SHA-256 of a Hugging Face cache blob on its first load, so that every other copy
    /// of the blob on this node is known without reading. On by default; costs the blob's length at
    /// about 1.5 GB/s, once.
    pub bind_blob_name: bool,
    /// Make room when the store is full. On by default. The node's daemon is asked, and its answer holds; where
    /// none answers, unreferenced objects are reclaimed here, least recently used first.
    pub reclaim_when_full: bool,
    /// Longest wait for the daemon's answer; see [`DEFAULT_ROOM_TIMEOUT`]. Zero: it is not asked.
    pub room_timeout: Duration,
    /// Have the node's daemon publish unknown files, where this process can only read the store. On by default. Where that fails,
    /// they are loaded into private memory.
    pub broker: bool,
    /// Longest wait for each message of the daemon meanwhile; see [`DEFAULT_BROKER_TIMEOUT`]. Zero: it is not asked.
    pub broker_timeout: Duration,
    /// Smallest safetensors file in bytes loaded through the store; see [`DEFAULT_MIN_SHARED_BYTES`]. Smaller files,
    /// and those below 64 times as many bytes that were written within the last 100 ms (2 s on file systems with coarse
    /// time stamps), are read into private memory without being looked up: sharing them costs more than it saves. In a
    /// model of several files each is judged by itself. Zero: every file is shared.
    pub min_shared_bytes: u64,
    /// Receives the progress of a cold load.
    pub progress: Option<ProgressFn>,
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self {
            access: Access::ReadOnly,
            prefault: false,
            ignore_identity: false,
            threads: None,
            wait: DEFAULT_WAIT,
            bind_blob_name: true,
            reclaim_when_full: true,
            room_timeout: DEFAULT_ROOM_TIMEOUT,
            broker: true,
            broker_timeout: DEFAULT_BROKER_TIMEOUT,
            min_shared_bytes: DEFAULT_MIN_SHARED_BYTES,
            progress: None,
        }
    }
}

impl LoadOptions {
    /// Sets [`LoadOptions::access`].
    pub fn with_access(mut self, access: Access) -> Self {
        self.access = access;
        self
    }

    /// Sets [`LoadOptions::prefault`].
    pub fn with_prefault(mut self, prefault: bool) -> Self {
        self.prefault = prefault;
        self
    }

    /// Sets [`LoadOptions::ignore_identity`].
    pub fn with_ignore_identity(mut self, ignore_identity: bool) -> Self {
        self.ignore_identity = ignore_identity;
        self
    }

    /// Sets [`LoadOptions::threads`].
    pub fn with_threads(mut self, threads: Option<NonZeroUsize>) -> Self {
        self.threads = threads;
        self
    }

    /// Sets [`LoadOptions::wait`].
    pub fn with_wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// Sets [`LoadOptions::bind_blob_name`].
    pub fn with_bind_blob_name(mut self, bind_blob_name: bool) -> Self {
        self.bind_blob_name = bind_blob_name;
        self
    }

    /// Sets [`LoadOptions::reclaim_when_full`].
    pub fn with_reclaim_when_full(mut self, reclaim_when_full: bool) -> Self {
        self.reclaim_when_full = reclaim_when_full;
        self
    }

    /// Sets [`LoadOptions::room_timeout`].
    pub fn with_room_timeout(mut self, room_timeout: Duration) -> Self {
        self.room_timeout = room_timeout;
        self
    }

    /// Sets [`LoadOptions::broker`].
    pub fn with_broker(mut self, broker: bool) -> Self {
        self.broker = broker;
        self
    }

    /// Sets [`LoadOptions::broker_timeout`].
    pub fn with_broker_timeout(mut self, broker_timeout: Duration) -> Self {
        self.broker_timeout = broker_timeout;
        self
    }

    /// Sets [`LoadOptions::min_shared_bytes`].
    pub fn with_min_shared_bytes(mut self, min_shared_bytes: u64) -> Self {
        self.min_shared_bytes = min_shared_bytes;
        self
    }

    /// Sets [`LoadOptions::progress`].
    pub fn with_progress(mut self, progress: impl Into<Option<ProgressFn>>) -> Self {
        self.progress = progress.into();
        self
    }

    pub(crate) fn thread_count(&self) -> usize {
        /// More threads than this only contend: memory bandwidth is the limit by then.
        const MAX_THREADS: usize = 32;
        self.threads
            .or_else(|| std::thread::available_parallelism().ok())
            .map_or(1, NonZeroUsize::get)
            .min(MAX_THREADS)
    }
}
