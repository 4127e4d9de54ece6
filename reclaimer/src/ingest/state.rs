//! State that clients and ingest jobs share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tetris_loader::ReadMonitor;
use tetris_reclaimer_core::Space;
use tokio::sync::watch;

use super::header_memory::HeaderMemory;
use super::job::IngestJob;
use super::reading_time::ReadingTimes;
use super::refusal_log::RefusalLog;
use super::reserved::Reserved;
use super::schedule::{Schedule, Turn};
use super::turns::Turns;
use super::{
    AskRoom, EndedIngest, IngestCounts, IngestObserver, IngestOptions, IngestOutcome, Stage,
};

/// State that clients and jobs share.
pub(super) struct BrokerState {
    pub(super) options: Mutex<IngestOptions>,
    pub(super) state: Mutex<Jobs>,
    /// Notified of each change of the schedule.
    pub(super) changes: watch::Sender<()>,
    pub(super) room: Arc<AskRoom>,
    pub(super) observer: Arc<dyn IngestObserver>,
    pub(super) refusals: RefusalLog,
    pub(super) turns: Turns,
    pub(super) headers: Arc<HeaderMemory>,
    pub(super) reading_times: ReadingTimes,
}

#[derive(Default)]
pub(super) struct Jobs {
    pub(super) schedule: Schedule,
    pub(super) jobs: Vec<Arc<IngestJob>>,
    pub(super) counts: IngestCounts,
    reserved: Reserved,
}

pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl BrokerState {
    pub(super) fn try_start(&self, id: u64) -> Result<Turn, u32> {
        let config = locked(&self.options).config.clone();
        locked(&self.state).schedule.try_start(id, &config)
    }

    pub(super) fn give_up(&self, id: u64) {
        locked(&self.state).schedule.give_up(id);
        self.changes.send_replace(());
    }

    /// Forgets a job. Clients can no longer join it.
    pub(super) fn end(&self, id: u64) {
        let mut state = locked(&self.state);
        state.schedule.end(id);
        state.reserved.end(id);
        let at = state.jobs.iter().position(|job| job.id == id);
        let ended = at.map(|at| state.jobs.swap_remove(at));
        if let Some(ended) = ended {
            self.tell_active_files(&state, ended.store());
        }
        drop(state);
        self.changes.send_replace(());
    }

    /// Under the lock, so that the last word is the latest.
    pub(super) fn tell_active_files(&self, state: &Jobs, store: &str) {
        let of_store = state.jobs.iter().filter(|job| job.store() == store);
        self.observer.active_files(store, of_store.count());
    }

    /// Room that a store needs before `room` more is filled there; `None` for a store that has room
    /// made only when it is full.
    pub(super) fn reserve(
        &self,
        id: u64,
        store: &str,
        room: Space,
        monitor: &Arc<ReadMonitor>,
    ) -> Option<Space> {
        if !locked(&self.options).asks_first(store) {
            return None;
        }
        let reserved = &mut locked(&self.state).reserved;
        Some(reserved.set(id, store, room, monitor))
    }

    /// The engine granted a job the room that it reserved.
    pub(super) fn grant(&self, id: u64) {
        locked(&self.state).reserved.grant(id);
    }

    /// Granted room that is not filled, by store.
    pub(super) fn granted(&self) -> Vec<(String, Space)> {
        locked(&self.state).reserved.granted()
    }

    /// A job writes no more.
    pub(super) fn release(&self, id: u64) {
        locked(&self.state).reserved.end(id);
    }

    pub(super) fn ended(
        &self,
        store: &str,
        outcome: IngestOutcome,
        bytes_read: u64,
        took: Duration,
    ) {
        self.observer.ended(EndedIngest {
            store,
            outcome,
            bytes_read,
            took,
        });
    }

    pub(super) fn count(&self, stage: &Stage) {
        let counts = &mut locked(&self.state).counts;
        match stage {
            Stage::Done { bytes_read, .. } => {
                counts.served += 1;
                counts.bytes_read += bytes_read;
            }
            Stage::Refused(_) => counts.refused += 1,
            Stage::Waiting(_) | Stage::Reading { .. } => {}
        }
    }
}
