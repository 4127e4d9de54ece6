//! The log of files refused before they have a job: their clients are referred to it. A
//! client that asks again and again does not fill it.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use tetris_wire::Peer;
use tetris_wire::daemon::{IngestReason, IngestRefusal};
use tokio::time::{Duration, Instant};

use super::IngestOutcome;

/// Time between two lines on the same store, user and reason.
const INTERVAL: Duration = Duration::from_secs(10);
/// Most lines in [`INTERVAL`].
const MAX_LINES: usize = 64;

/// Name of the store, user id, reason.
type Key = (String, u32, IngestReason);

/// Refusals that were logged lately.
#[derive(Debug, Default)]
pub(super) struct RefusalLog(Mutex<HashMap<Key, Instant>>);

impl RefusalLog {
    /// Logs a refusal, unless one like it was logged a moment ago.
    pub(super) fn write(&self, store: &str, peer: Peer, refusal: &IngestRefusal) {
        let key = (store.to_owned(), peer.uid, refusal.reason);
        if self.is_due(key, Instant::now()) {
            let Peer { uid, gid, pid } = peer;
            let outcome = IngestOutcome::Refused(refusal.reason).name();
            let reason = &refusal.text;
            tracing::info!(
                store,
                uid,
                gid,
                pid,
                outcome,
                reason,
                "file of a client refused"
            );
        }
    }

    fn is_due(&self, key: Key, now: Instant) -> bool {
        let mut written = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        written.retain(|_, at| now.duration_since(*at) < INTERVAL);
        if written.len() >= MAX_LINES || written.contains_key(&key) {
            return false;
        }
        written.insert(key, now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_is_written_once_in_a_while_and_a_flood_is_cut() {
        let log = RefusalLog::default();
        let begin = Instant::now();
        let key = |uid| ("a".to_owned(), uid, IngestReason::BUSY);
        assert!(log.is_due(key(1), begin));
        assert!(!log.is_due(key(1), begin + INTERVAL / 2));
        assert!(log.is_due(key(2), begin + INTERVAL / 2));
        assert!(log.is_due(key(1), begin + INTERVAL));
        let later = begin + INTERVAL * 3;
        let written = (0..1000).filter(|uid| log.is_due(key(*uid), later));
        assert_eq!(written.count(), MAX_LINES);
    }
}
