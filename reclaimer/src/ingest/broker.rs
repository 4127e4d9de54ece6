//! Requests of clients, and the ingest jobs that serve them.

use std::sync::{Arc, Mutex};

use tetris_reclaimer_core::Space;
use tetris_wire::daemon::{IngestReason, IngestRefusal};
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, timeout};

use super::descriptor::{Checked, inspect};
use super::job::IngestJob;
use super::reading_time::ReadingTimes;
use super::refusal_log::RefusalLog;
use super::schedule::Key;
use super::state::{BrokerState, locked};
use super::turns::Turns;
use super::{
    AskRoom, EndedIngest, IngestCounts, IngestObserver, IngestOptions, IngestOutcome,
    IngestRequest, PassedFile, Stage, TargetStore, refusal,
};
use crate::room::GrantedRoom;
use tetris_wire::Peer;

/// Publishes files and memory that clients pass. One for all stores of the node.
#[derive(Clone)]
pub struct Broker(Arc<BrokerState>);

/// A client's part in a job. Dropping it means that the client is done.
pub struct Ticket {
    shared: Arc<BrokerState>,
    job: Arc<IngestJob>,
    uid: u32,
    stage: watch::Receiver<Stage>,
}

/// Room of a broker's jobs.
struct Granted(Arc<BrokerState>);

impl std::fmt::Debug for Granted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Granted").finish_non_exhaustive()
    }
}

impl GrantedRoom for Granted {
    fn left(&self) -> Vec<(String, Space)> {
        self.0.granted()
    }
}

impl std::fmt::Debug for Broker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Broker").finish_non_exhaustive()
    }
}

impl Broker {
    /// A broker that asks `room` for room, without an observer.
    pub fn new(options: IngestOptions, room: Arc<AskRoom>) -> Self {
        Self::observed(options, room, Arc::new(()))
    }

    /// A broker that reports to `observer`.
    pub fn observed(
        options: IngestOptions,
        room: Arc<AskRoom>,
        observer: Arc<dyn IngestObserver>,
    ) -> Self {
        Self(Arc::new(BrokerState {
            options: Mutex::new(options),
            state: Mutex::default(),
            changes: watch::channel(()).0,
            room,
            observer,
            refusals: RefusalLog::default(),
            turns: Turns::default(),
            headers: Arc::default(),
            reading_times: ReadingTimes::default(),
        }))
    }

    pub(super) fn turns(&self) -> &Turns {
        &self.0.turns
    }

    /// Applies other options, for jobs that begin from now on.
    pub fn configure(&self, options: IngestOptions) {
        *locked(&self.0.options) = options;
        self.0.changes.send_replace(());
    }

    /// Room that was granted to jobs and is not filled yet.
    pub fn granted_room(&self) -> impl GrantedRoom + use<> {
        Granted(Arc::clone(&self.0))
    }

    /// Longest time without progress.
    pub(super) fn stall(&self) -> std::time::Duration {
        locked(&self.0.options).stall()
    }

    /// Counts so far.
    pub fn counts(&self) -> IngestCounts {
        locked(&self.0.state).counts
    }

    /// Files that wait, are read or are kept for clients now.
    pub fn active_files(&self) -> usize {
        locked(&self.0.state).jobs.len()
    }

    /// Has a file, or memory, published.
    ///
    /// # Errors
    /// When the descriptor is not of a taken file, or there are too many.
    pub async fn ask(
        &self,
        target: TargetStore,
        peer: Peer,
        request: IngestRequest,
        passed: impl Into<Option<PassedFile>>,
    ) -> Result<Ticket, IngestRefusal> {
        let passed = passed.into();
        let (store, begun) = (target.name.clone(), Instant::now());
        let asked = self.begin(target, peer, request, passed).await;
        asked.inspect_err(|refusal| {
            self.0.refusals.write(&store, peer, refusal);
            self.0.observer.ended(EndedIngest {
                store: &store,
                outcome: IngestOutcome::Refused(refusal.reason),
                bytes_read: 0,
                took: begun.elapsed(),
            });
        })
    }

    async fn begin(
        &self,
        target: TargetStore,
        peer: Peer,
        request: IngestRequest,
        passed: Option<PassedFile>,
    ) -> Result<Ticket, IngestRefusal> {
        let options = locked(&self.0.options).clone();
        if !options.config.enabled {
            let text = "this daemon takes no files (ingest.enabled)";
            return Err(refusal(IngestReason::UNAVAILABLE, text));
        }
        let (passed, checked) = match passed {
            Some(passed) => {
                let looked = inspected(passed, &target, request.clone(), &options).await?;
                (Some(looked.0), looked.1)
            }
            None => (None, Checked::NOTHING),
        };
        let key = Key {
            store: target.name.clone(),
            request,
            identity: checked.identity,
        };
        let uid = peer.uid;
        let mut state = locked(&self.0.state);
        let id = match state.schedule.join(&key, uid) {
            Some(id) => id,
            None => match state
                .schedule
                .begin(key.clone(), uid, checked.local, &options.config)
            {
                Ok(id) => {
                    let job = Arc::new(IngestJob::new(id, target, key, checked, peer));
                    state.jobs.push(Arc::clone(&job));
                    self.0.tell_active_files(&state, job.store());
                    tokio::spawn(job.run(Arc::clone(&self.0), passed));
                    id
                }
                Err(_full) => {
                    let text = "too many files wait to be read; try again later";
                    return Err(refusal(IngestReason::BUSY, text));
                }
            },
        };
        let position = state.jobs.iter().find(|job| job.id == id);
        let Some(job) = position.map(Arc::clone) else {
            return Err(refusal(
                IngestReason::UNAVAILABLE,
                "the file's job is gone (this is a bug)",
            ));
        };
        drop(state);
        // A client more may pay for it.
        self.0.changes.send_replace(());
        Ok(Ticket {
            stage: job.stage(),
            shared: Arc::clone(&self.0),
            job,
            uid,
        })
    }
}

/// Looks at a descriptor in a thread that may hang, and waits for that no longer than for a file
/// that stalls.
async fn inspected(
    passed: PassedFile,
    target: &TargetStore,
    request: IngestRequest,
    options: &IngestOptions,
) -> Result<(PassedFile, Checked), IngestRefusal> {
    let (reply, answer) = oneshot::channel();
    let (target, owned) = (target.clone(), options.clone());
    let thread = std::thread::Builder::new().name("inspect".to_owned());
    let started = thread.spawn(move || match inspect(&passed, &target, &request, &owned) {
        Ok(checked) => {
            let _gone = reply.send(Ok((passed, checked)));
        }
        Err(refusal) => {
            let _gone = reply.send(Err(refusal));
        }
    });
    if let Err(error) = started {
        let text = format!("the daemon cannot start a thread: {error}");
        return Err(refusal(IngestReason::UNAVAILABLE, text));
    }
    match timeout(options.stall(), answer).await {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => Err(refusal(
            IngestReason::UNAVAILABLE,
            "the passed descriptor could not be looked at",
        )),
        Err(_) => Err(refusal(
            IngestReason::STALLED,
            "the file system of the passed descriptor does not answer",
        )),
    }
}

impl Ticket {
    /// Progress of the file.
    pub fn stage(&self) -> Stage {
        self.stage.borrow().clone()
    }

    /// Waits until it is further; for ever when it has ended.
    pub async fn changed(&mut self) {
        if self.stage.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let last = locked(&self.shared.state)
            .schedule
            .leave(self.job.id, self.uid);
        if last {
            self.job.abandon();
        }
        self.shared.changes.send_replace(());
    }
}
