//! One ingest job: a file that waits for its turn, is read, and is kept until its clients are done.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tetris_loader::ReadMonitor;
use tokio::sync::watch;
use tokio::time::Instant;

use super::descriptor::Checked;
use super::read::Pulse;
use super::schedule::Key;
use super::{Stage, TargetStore};
use tetris_wire::Peer;

/// An ingest job.
pub(super) struct IngestJob {
    pub(super) id: u64,
    pub(super) target: TargetStore,
    pub(super) key: Key,
    pub(super) checked: Checked,
    /// The first client, for the log.
    pub(super) peer: Peer,
    pub(super) monitor: Arc<ReadMonitor>,
    pub(super) pulse: Arc<Pulse>,
    pub(super) stage: watch::Sender<Stage>,
    pub(super) begun: Instant,
    /// True if no client waits for it any more.
    pub(super) abandoned: AtomicBool,
}

impl IngestJob {
    pub(super) fn new(
        id: u64,
        target: TargetStore,
        key: Key,
        checked: Checked,
        peer: Peer,
    ) -> Self {
        Self {
            id,
            target,
            key,
            checked,
            peer,
            monitor: Arc::default(),
            pulse: Arc::default(),
            stage: watch::channel(Stage::Waiting(0)).0,
            begun: Instant::now(),
            abandoned: AtomicBool::new(false),
        }
    }

    pub(super) fn stage(&self) -> watch::Receiver<Stage> {
        self.stage.subscribe()
    }

    pub(super) fn store(&self) -> &str {
        &self.target.name
    }

    /// Cancels it: no client waits for it any more.
    pub(super) fn abandon(&self) {
        self.abandoned.store(true, Ordering::Relaxed);
        self.monitor.cancel();
    }
}
