//! The node daemon's broker, which publishes bytes of this process's memory for a store that it can
//! only read.

use std::os::fd::AsFd;
use std::time::Instant;

use tetris_loader::PrivateCause;
use tetris_store_layout::{ObjectRef, Published, Store};

use super::LoadContext;
use super::broker::cause_of;
use crate::daemon::{self, DaemonClient, DaemonError};
use crate::private_reason::PrivateReason;
use crate::read_at::ReadAt;

impl LoadContext<'_> {
    /// Has the daemon publish the bytes that `read_at` gives, which make `object` and are not in
    /// the store, and maps it. They are copied once, into memory that the daemon reads.
    pub(crate) fn publish_brokered(
        &self,
        store: &Store,
        object: ObjectRef,
        read_at: ReadAt<'_>,
    ) -> Result<Published, PrivateReason> {
        if !self.asks_broker(store) {
            return Err(self.unpublished());
        }
        let threads = self.options.thread_count();
        let memory = daemon::sealed_memory(object.len, read_at, threads).map_err(|error| {
            let text =
                format!("the bytes cannot be copied into memory for the node's daemon: {error}");
            PrivateReason::new(PrivateCause::Failed, text)
        })?;
        // Its object may be reclaimed before it is mapped.
        for _ in 0..super::broker::ATTEMPTS {
            if let Some(published) = self.pass_memory(store, object, &memory)? {
                return Ok(published);
            }
        }
        let text = "the node's daemon published the bytes, and they were reclaimed at once";
        Err(PrivateReason::new(PrivateCause::Failed, text))
    }

    /// Passes memory, and maps its object; `None` when that is gone again.
    fn pass_memory(
        &self,
        store: &Store,
        object: ObjectRef,
        memory: impl AsFd,
    ) -> Result<Option<Published>, PrivateReason> {
        self.absence.wait(store);
        let daemon = DaemonClient::of_store(store, self.options.broker_timeout);
        let (cause, why) = match daemon.publish_memory(memory.as_fd(), object) {
            Ok(held) => {
                let mapped = held.map(store, self.options.access);
                return mapped.map_err(|error| PrivateReason::of_publish(&error.into(), store));
            }
            Err(DaemonError::Refused(refusal)) => (cause_of(refusal.reason), refusal.text),
            Err(error) if error.is_absent() => {
                let why = "no daemon that takes memory listens in the store".to_owned();
                (PrivateCause::of_read_only(store), why)
            }
            Err(error @ DaemonError::TooOld { .. }) => {
                (PrivateCause::DaemonRefused, error.to_string())
            }
            Err(error) => {
                self.broker_patience.lose(Instant::now());
                (PrivateCause::DaemonSilent, error.to_string())
            }
        };
        let usage = store.usage().unwrap_or_default();
        let cause = cause.with_needed(usage.capacity, object.len, object.len);
        let text = format!("the node's daemon did not publish the bytes: {why}");
        Err(PrivateReason::new(cause, text))
    }
}
