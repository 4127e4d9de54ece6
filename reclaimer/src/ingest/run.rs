//! The run of an ingest job: its turn, the reading thread, and the hold for its clients.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::available_parallelism;
use std::time::Duration;

use tetris_wire::daemon::{IngestReason, IngestRefusal};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until, timeout};
use tracing::field::Empty;
use tracing::{Instrument as _, Span};

use super::finished::Finished;
use super::job::IngestJob;
use super::read::Work;
use super::schedule::Turn;
use super::state::{BrokerState, locked};
use super::{HOLD, IngestOutcome, PassedFile, Stage, Stored, refusal};
use tetris_wire::Peer;

/// The reason that a file is given up.
#[derive(Debug, thiserror::Error)]
enum Stalled {
    #[error("nothing of the file could be read for too long")]
    Still,
    #[error(
        "{got} bytes of the file could be read in {stall:?}, at least {wanted} are expected (ingest.least_bytes_per_sec)"
    )]
    Slow {
        got: u64,
        stall: Duration,
        wanted: u64,
    },
}

/// Time between two looks at a file's progress.
const LOOK: Duration = Duration::from_millis(100);

type Read = Result<Finished, IngestRefusal>;

impl IngestJob {
    pub(super) fn run(
        self: &Arc<Self>,
        shared: Arc<BrokerState>,
        passed: Option<PassedFile>,
    ) -> impl Future<Output = ()> + Send + 'static {
        let job = Arc::clone(self);
        let span = tracing::debug_span!(
            "ingest",
            store = self.target.name,
            bytes = self.key.identity.size,
            bytes_read = Empty,
            outcome = Empty
        );
        let work = async move {
            match job.turn(&shared).await {
                Ok(turn) => job.read(&shared, passed, turn).await,
                Err(refusal) => {
                    drop(passed);
                    job.conclude(&shared, Stage::Refused(refusal));
                }
            }
            shared.end(job.id);
        };
        work.instrument(span)
    }

    fn conclude(&self, shared: &BrokerState, stage: Stage) {
        let Peer { uid, gid, pid } = self.peer;
        let store = &self.target.name;
        let bytes = self.key.identity.size;
        tracing::info!(store, uid, gid, pid, bytes, ?stage, "file of a client");
        shared.count(&stage);
        if let Some(outcome) = self.outcome(&stage) {
            let read = self.monitor.bytes_read();
            let span = Span::current();
            span.record("bytes_read", read);
            span.record("outcome", outcome.name());
            shared.ended(store, outcome, read, self.begun.elapsed());
        }
        self.stage.send_replace(stage);
    }

    fn outcome(&self, stage: &Stage) -> Option<IngestOutcome> {
        let abandoned = self.abandoned.load(Ordering::Relaxed);
        match stage {
            Stage::Done {
                stored: Stored::Derived,
                ..
            } => Some(IngestOutcome::Recorded),
            Stage::Done { bytes_read: 0, .. } => Some(IngestOutcome::Known),
            Stage::Done { .. } => Some(IngestOutcome::Published),
            Stage::Refused(_) if abandoned => Some(IngestOutcome::Abandoned),
            Stage::Refused(refusal) => Some(IngestOutcome::Refused(refusal.reason)),
            Stage::Waiting(_) | Stage::Reading { .. } => None,
        }
    }

    /// Waits for its turn.
    async fn turn(&self, shared: &BrokerState) -> Result<Turn, IngestRefusal> {
        let mut changes = shared.changes.subscribe();
        let wait = locked(&shared.options).wait();
        let deadline = Instant::now() + wait;
        loop {
            changes.mark_unchanged();
            if self.monitor.is_cancelled() {
                let text = "no client waits for the file any more";
                return Err(refusal(IngestReason::UNAVAILABLE, text));
            }
            let ahead = match shared.try_start(self.id) {
                Ok(turn) => return Ok(turn),
                Err(ahead) => ahead,
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

    /// Reads the file in its own thread, and keeps the result.
    async fn read(
        self: &Arc<Self>,
        shared: &Arc<BrokerState>,
        passed: Option<PassedFile>,
        turn: Turn,
    ) {
        let (reply, mut answer) = oneshot::channel();
        let span = Span::current();
        let work = match self.work(shared, passed, turn) {
            Ok(work) => work,
            Err(refused) => return self.conclude(shared, Stage::Refused(refused)),
        };
        let (store, of) = (self.store().to_owned(), Arc::clone(shared));
        let read = move || {
            let read = || span.in_scope(|| work.run());
            // Without a receiver the published objects are released here.
            let _gone = reply.send(of.reading_times.measured(&store, read));
        };
        let thread = std::thread::Builder::new().name("ingest".to_owned());
        if let Err(error) = thread.spawn(read) {
            let text = format!("the daemon cannot start a thread: {error}");
            let refused = refusal(IngestReason::UNAVAILABLE, text);
            return self.conclude(shared, Stage::Refused(refused));
        }
        let text = match self.watch(shared, &mut answer).await {
            Ok(result) => return self.finish(shared, result).await,
            Err(stalled) => stalled.to_string(),
        };
        self.monitor.cancel();
        shared.give_up(self.id);
        let refused = refusal(IngestReason::STALLED, text);
        self.conclude(shared, Stage::Refused(refused));
        // The thread counts until it comes back, if it ever does.
        let _late = answer.await;
    }

    fn work(
        self: &Arc<Self>,
        shared: &Arc<BrokerState>,
        passed: Option<PassedFile>,
        turn: Turn,
    ) -> Result<Work, IngestRefusal> {
        let (job, of) = (Arc::clone(self), Arc::clone(shared));
        let reserve = move |room| of.reserve(job.id, job.store(), room, &job.monitor);
        let (id, of) = (self.id, Arc::clone(shared));
        let granted = move || of.grant(id);
        let usage = self.target.store.usage().map_err(|error| {
            let text = format!("the daemon cannot look at the store: {error}");
            refusal(IngestReason::UNAVAILABLE, text)
        })?;
        let (max_tensors, record_limits) = {
            let options = locked(&shared.options);
            let limits = options.record_limits(self.store(), &usage);
            (options.config.max_tensors as usize, limits)
        };
        let threads = match turn {
            Turn::Shared => available_parallelism().unwrap_or(NonZeroUsize::MIN),
            // There can be as many as there are stores: each has pieces of its file in memory.
            Turn::Kept => NonZeroUsize::MIN,
        };
        Ok(Work {
            passed,
            target: self.target.clone(),
            key: self.key.clone(),
            checked: self.checked,
            max_tensors,
            record_limits,
            threads,
            reserve: Box::new(reserve),
            granted: Arc::new(granted),
            monitor: Arc::clone(&self.monitor),
            pulse: Arc::clone(&self.pulse),
            room: Arc::clone(&shared.room),
            headers: Arc::clone(&shared.headers),
        })
    }

    /// Waits for the thread, and reports the progress. An error means that it stands still, or is too
    /// slow.
    async fn watch(
        &self,
        shared: &BrokerState,
        answer: &mut oneshot::Receiver<Read>,
    ) -> Result<Read, Stalled> {
        let total = self.key.identity.size;
        let (stall, least) = {
            let options = locked(&shared.options);
            (options.stall(), options.config.least_bytes_per_sec)
        };
        let mut before = (0, 0);
        let mut since = Instant::now();
        // Bytes and signs of life at the beginning of the time over which its speed is measured.
        let (mut window, mut begun) = (before, Instant::now());
        loop {
            if let Ok(answered) = timeout(LOOK, &mut *answer).await {
                let ended = refusal(
                    IngestReason::UNAVAILABLE,
                    "the reading ended (this is a bug)",
                );
                return Ok(answered.unwrap_or(Err(ended)));
            }
            let read = self.monitor.bytes_read();
            let now = (read, self.pulse.beats());
            if now != before {
                (before, since) = (now, Instant::now());
            } else if since.elapsed() >= stall {
                return Err(Stalled::Still);
            }
            let passes = self.pulse.passes();
            let is_reading = read < total.saturating_mul(passes);
            // Making room takes time, in which nothing is read.
            if now.1 != window.1 || !is_reading {
                (window, begun) = (now, Instant::now());
            } else if begun.elapsed() >= stall {
                let got = read.saturating_sub(window.0);
                let wanted = least.saturating_mul(stall.as_secs());
                if got < wanted {
                    return Err(Stalled::Slow { got, stall, wanted });
                }
                (window, begun) = (now, Instant::now());
            }
            let (done, total) = self.key.request.progress(read / passes, total);
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
            stored: published.stored,
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
