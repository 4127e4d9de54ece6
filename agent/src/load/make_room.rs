//! Room in a full store: made by the node daemon, or by this process where there is none.

use std::time::Instant;

use tetris_store_layout::Store;

use super::context::LoadContext;
use crate::daemon::{self, RoomOutcome};
use crate::gc::{self, GcOptions};

impl LoadContext<'_> {
    /// Makes room for an object of `bytes`, or has it made; returns true when trying again may help.
    pub(crate) fn make_room(&self, bytes: u64) -> bool {
        let Some(store) = self.store.filter(|store| store.is_writable()) else {
            return false;
        };
        if !self.options.reclaim_when_full {
            return false;
        }
        let _one_at_a_time = self.making_room.lock();
        let Ok(usage) = store.usage() else {
            return false;
        };
        // A file system can also run out of inodes; one object less makes room for another.
        let no_inode = usage.inodes > 0 && usage.inodes_free == 0;
        if usage.free >= bytes && !no_inode {
            return true;
        }
        if let Some(made) = self.ask(store, bytes, u32::from(no_inode)) {
            return made;
        }
        let options =
            GcOptions::default().with_enough_bytes(Some(bytes.saturating_sub(usage.free).max(1)));
        gc::collect(store, &options).is_ok_and(|report| report.freed_bytes > 0)
    }

    /// Asks the node daemon; `None` when no daemon answers, so that this process must make room.
    ///
    /// A refusal holds: the daemon keeps objects by policy, or for processes that this one does not know.
    fn ask(&self, store: &Store, bytes: u64, inodes: u32) -> Option<bool> {
        let timeout = self.options.room_timeout;
        let begun = Instant::now();
        if timeout.is_zero() || !self.patience.is_left(begun) {
            return None;
        }
        if self.answers.is_refused(bytes, begun) {
            return Some(false);
        }
        match daemon::make_room(&store.daemon_socket(), bytes, inodes, timeout) {
            RoomOutcome::Made {
                free_bytes,
                freed_bytes,
            } => {
                tracing::debug!(bytes, free_bytes, freed_bytes, "the daemon made room");
                Some(true)
            }
            RoomOutcome::Refused(refusal) => {
                self.answers.refuse(bytes, Instant::now(), &refusal);
                Some(false)
            }
            RoomOutcome::NoDaemon => None,
            RoomOutcome::Failed(why) => {
                tracing::warn!(
                    why,
                    "the node's daemon gave no answer; this process makes room"
                );
                self.patience.lose(Instant::now());
                None
            }
        }
    }

    /// The reason for which the store did not take something, with the daemon's refusals.
    pub(crate) fn with_refusal(&self, reason: String) -> String {
        let said = [self.answers.why(), self.answers.why_not_ingested()];
        let said = said.into_iter().flatten();
        said.fold(reason, |reason, why| format!("{reason}; {why}"))
    }
}
