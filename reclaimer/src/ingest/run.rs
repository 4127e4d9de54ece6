//! The run of an ingest job: its turn, the reading thread, and the hold for its clients.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tetris_loader::ingest::IngestedFile;
use tetris_wire::daemon::{IngestReason, IngestRefusal};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until, timeout};

use super::job::IngestJob;
use super::read::Work;
use super::state::{BrokerState, locked};
use super::{HOLD, IngestOutcome, PassedFile, Stage, refusal};
use tetris_wire::Peer;

/// Time between two looks at a file's progress.
const LOOK: Duration = Duration::from_millis(100);

type Read = Result<IngestedFile, IngestRefusal>;

impl IngestJob {
    pub(super) fn run(
        self: &Arc<Self>,
        shared: Arc<BrokerState>,
        passed: PassedFile,
    ) -> impl Future<Output = ()> + Send + 'static {
        let job = Arc::clone(self);
        async move {
            if let Err(refusal) = job.turn(&shared).await {
                drop(passed);
                job.conclude(&shared, Stage::Refused(refusal));
            } else {
                job.read(&shared, passed).await;
            }
            shared.end(job.id);
        }
    }

    fn conclude(&self, shared: &BrokerState, stage: Stage) {
        let Peer { uid, gid, pid } = self.peer;
        let store = &self.target.name;
        let bytes = self.key.identity.size;
        tracing::info!(store, uid, gid, pid, bytes, ?stage, "file of a client");
        shared.count(&stage);
        if let Some(outcome) = self.outcome(&stage) {
            let read = self.monitor.bytes_read();
            shared.ended(store, outcome, read, self.begun.elapsed());
        }
        self.stage.send_replace(stage);
    }

    fn outcome(&self, stage: &Stage) -> Option<IngestOutcome> {
        let abandoned = self.abandoned.load(Ordering::Relaxed);
        match stage {
            Stage::Done { bytes_read: 0, .. } => Some(IngestOutcome::Known),
            Stage::Done { .. } => Some(IngestOutcome::Published),
            Stage::Refused(_) if abandoned => Some(IngestOutcome::Abandoned),
            Stage::Refused(refusal) => Some(IngestOutcome::Refused(refusal.reason)),
            Stage::Waiting(_) | Stage::Reading { .. } => None,
        }
    }

    /// Waits for its turn.
    async fn turn(&self, shared: &BrokerState) -> Result<(), IngestRefusal> {
        let mut changes = shared.changes.subscribe();
        let wait = locked(&shared.options).wait();
        let deadline = Instant::now() + wait;
        loop {
            changes.mark_unchanged();
            if self.monitor.is_cancelled() {
                let text = "no client waits for the file any more";
                return Err(refusal(IngestReason::UNAVAILABLE, text));
            }
            let Err(ahead) = shared.try_start(self.id) else {
                return Ok(());
            };
            self.stage.send_replace(Stage::Waiting(ahead));
            tokio::select! {
                _ = changes.changed() => {}
                () = sleep_until(deadline) => {
                    let text = format!("{ahead} files are still before this one after {wait:?}; try again later");
                    return Err(refusal(IngestReason::BUSY, text));
                }
            }
        }
    }

    /// Reads the file in a thread of its own, and keeps the result.
    async fn read(self: &Arc<Self>, shared: &Arc<BrokerState>, passed: PassedFile) {
        let (reply, mut answer) = oneshot::channel();
        let work = self.work(shared, passed);
        let read = move || {
            // Without a receiver the published objects are released here.
            let _gone = reply.send(work.run());
        };
        let thread = std::thread::Builder::new().name("ingest".to_owned());
        if let Err(error) = thread.spawn(read) {
            let text = format!("the daemon cannot start a thread: {error}");
            let refused = refusal(IngestReason::UNAVAILABLE, text);
            return self.conclude(shared, Stage::Refused(refused));
        }
        if let Some(result) = self.watch(shared, &mut answer).await {
            return self.finish(shared, result).await;
        }
        self.monitor.cancel();
        shared.give_up(self.id);
        let text = "nothing of the file could be read for too long";
        let refused = refusal(IngestReason::STALLED, text);
        self.conclude(shared, Stage::Refused(refused));
        // The thread counts until it comes back, if it ever does.
        let _late = answer.await;
    }

    fn work(self: &Arc<Self>, shared: &Arc<BrokerState>, passed: PassedFile) -> Work {
        let (job, of) = (Arc::clone(self), Arc::clone(shared));
        let reserve = move |bytes| of.reserve(job.id, job.store(), bytes, &job.monitor);
        let (max_tensors, record_limits) = {
            let options = locked(&shared.options);
            let limits = options.record_limits(self.store());
            (options.config.max_tensors as usize, limits)
        };
        Work {
            passed,
            target: self.target.clone(),
            key: self.key.clone(),
            checked: self.checked,
            max_tensors,
            record_limits,
            reserve: Box::new(reserve),
            monitor: Arc::clone(&self.monitor),
            pulse: Arc::clone(&self.pulse),
            room: Arc::clone(&shared.room),
        }
    }

    /// Waits for the thread, and tells how far it is; `None` when it stands still.
    async fn watch(
        &self,
        shared: &BrokerState,
        answer: &mut oneshot::Receiver<Read>,
    ) -> Option<Read> {
        let total = self.key.identity.size;
        let stall = locked(&shared.options).stall();
        let mut before = (0, 0);
        let mut since = Instant::now();
        loop {
            if let Ok(answered) = timeout(LOOK, &mut *answer).await {
                let ended = refusal(
                    IngestReason::UNAVAILABLE,
                    "the reading ended (this is a bug)",
                );
                return Some(answered.unwrap_or(Err(ended)));
            }
            let read = self.monitor.bytes_read();
            let now = (read, self.pulse.beats());
            if now != before {
                (before, since) = (now, Instant::now());
            } else if since.elapsed() >= stall {
                return None;
            }
            let done = (read / self.pulse.passes()).min(total);
            self.stage.send_replace(Stage::Reading { done, total });
        }
    }

    async fn finish(&self, shared: &BrokerState, result: Read) {
        let published = match result {
            Ok(published) => published,
            Err(refused) => return self.conclude(shared, Stage::Refused(refused)),
        };
        shared.release(self.id);
        let mut changes = shared.changes.subscribe();
        let done = Stage::Done {
            manifest: published.manifest,
            bytes_read: published.bytes_read,
        };
        self.conclude(shared, done);
        let released =
            async { while !self.monitor.is_cancelled() && changes.changed().await.is_ok() {} };
        // A slower client may find objects reclaimed, and asks again.
        let _done = timeout(HOLD, released).await;
        // Up to 16,384 mappings.
        let _released = tokio::task::spawn_blocking(move || drop(published)).await;
    }
}
