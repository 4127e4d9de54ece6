//! Room in a full store: made by the node daemon, or by this process where there is none.

use std::time::Instant;

use tetris_loader::PrivateCause;
use tetris_store_layout::Store;

use super::LoadContext;
use crate::daemon::{DaemonClient, DaemonError, RoomMade};
use crate::gc::{self, GcOptions};
use crate::private_reason::PrivateReason;

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
        match DaemonClient::of_store(store, timeout).make_room(bytes, inodes) {
            Ok(RoomMade {
                free_bytes,
                freed_bytes,
            }) => {
                tracing::debug!(bytes, free_bytes, freed_bytes, "the daemon made room");
                Some(true)
            }
            Err(DaemonError::RoomRefused(refusal)) => {
                self.answers.refuse(bytes, Instant::now(), &refusal);
                Some(false)
            }
            Err(error) if error.is_absent() => None,
            Err(error) => {
                tracing::warn!(
                    %error,
                    "the node's daemon gave no answer; this process makes room"
                );
                self.patience.lose(Instant::now());
                None
            }
        }
    }

    /// The reason for which `missing` bytes of `total` are private, with the daemon's refusals; `refused`
    /// is the store's own, if it gave one.
    pub(crate) fn private_reason(
        &self,
        refused: Option<PrivateReason>,
        missing: u64,
        total: u64,
    ) -> PrivateReason {
        let mut reason = refused.unwrap_or_else(|| self.unpublished());
        for (cause, said) in [self.answers.why(), self.answers.why_not_ingested()]
            .into_iter()
            .flatten()
        {
            reason.text = format!("{}; {said}", reason.text);
            reason.cause = cause.unwrap_or(reason.cause);
        }
        let usage = self.store.and_then(|store| store.usage().ok());
        let capacity = usage.unwrap_or_default().capacity;
        reason.cause = reason.cause.with_needed(capacity, missing, total);
        reason
    }

    /// The reason for which nothing was published: this process can only read the store.
    pub(crate) fn unpublished(&self) -> PrivateReason {
        let text = "the tensor store is read-only for this process and does not have all objects";
        let cause = match self.store {
            // It was asked for an earlier load, in vain.
            Some(store)
                if !store.is_writable() && !self.broker_patience.is_left(Instant::now()) =>
            {
                PrivateCause::DaemonSilent
            }
            Some(store) => PrivateCause::of_read_only(store),
            None => PrivateCause::NotUsed,
        };
        PrivateReason::new(cause, text)
    }
}
