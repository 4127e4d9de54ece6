//! State of a function that its tasks share: behind a lock, with a clock.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tetris_scaler_dispatch::{Outcome, RequestId, Rules};
use tokio::runtime::Handle;
use tokio::sync::Notify;

use super::state::State;
use crate::clock::Clock;

/// State of a function's queue and instances.
#[derive(Debug)]
pub(super) struct SharedQueue {
    clock: Clock,
    state: Mutex<State>,
    /// Runtime of the timer: it outlives the thread of any one request.
    pub runtime: Option<Handle>,
    /// Wakes the timer when the earliest time may have changed.
    pub changed: Notify,
}

impl SharedQueue {
    /// Creates a queue without instances.
    pub(super) fn new(rules: Rules) -> Arc<Self> {
        Arc::new(Self {
            clock: Clock::start(),
            state: Mutex::new(State::new(rules)),
            runtime: Handle::try_current().ok(),
            changed: Notify::new(),
        })
    }

    /// Takes the room of a request back, and gives it to those that wait. Returns the time that its batch waited to be
    /// filled.
    pub(super) fn complete(&self, id: RequestId, outcome: Outcome) -> Duration {
        let now_us = self.now_us();
        let mut state = self.lock();
        let filling_us = state.complete(now_us, id, outcome);
        state.pump(now_us);
        Duration::from_micros(filling_us)
    }

    /// Removes a request whose client has left.
    pub(super) fn cancel(&self, id: RequestId) {
        let now_us = self.now_us();
        let mut state = self.lock();
        state.cancel(id);
        state.pump(now_us);
    }

    pub(super) fn now_us(&self) -> u64 {
        self.clock.now_us()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
