//! Grants: the right to send one request to one instance.

use std::sync::Arc;
use std::time::Duration;

use tetris_scaler_dispatch::{Outcome, RequestId};

use super::state::Given;
use super::{Endpoint, Function, Refusal};

/// The right to send one request to one instance. Dropped without an outcome, the request counts as
/// left by its client.
#[derive(Debug)]
pub struct Grant {
    leaving: Leaving,
    endpoint: Arc<Endpoint>,
    waited: Duration,
}

impl Grant {
    pub(super) fn new(function: Arc<Function>, id: RequestId, given: Given) -> Self {
        Self {
            leaving: Leaving(Some((function, id))),
            endpoint: given.endpoint,
            waited: Duration::from_micros(given.waited_us),
        }
    }

    /// The instance.
    pub const fn endpoint(&self) -> &Arc<Endpoint> {
        &self.endpoint
    }

    /// Time for which the request has waited.
    pub const fn waited(&self) -> Duration {
        self.waited
    }

    /// The instance answered.
    pub fn served(self) {
        self.end(Outcome::Served);
    }

    /// The instance broke off, answered with a fault of its own, or not in time.
    pub fn failed(self) {
        self.end(Outcome::Failed);
    }

    /// The instance could not be reached and nothing was sent: waits for another one.
    ///
    /// # Errors
    ///
    /// As [`Function::acquire`].
    pub async fn unreachable(mut self) -> Result<Self, Refusal> {
        let Some((function, id)) = self.leaving.0.take() else {
            return Err(Refusal::Expired { instances: 0 });
        };
        function.acquire_again(id).await
    }

    fn end(mut self, outcome: Outcome) {
        if let Some((function, id)) = self.leaving.0.take() {
            let now_us = function.now_us();
            let mut state = function.lock();
            state.complete(now_us, id, outcome);
            state.pump(now_us);
        }
    }
}

/// Takes a request from the dispatcher when it is dropped.
#[derive(Debug)]
pub(super) struct Leaving(Option<(Arc<Function>, RequestId)>);

impl Leaving {
    pub(super) fn new(function: &Arc<Function>, id: RequestId) -> Self {
        Self(Some((Arc::clone(function), id)))
    }

    pub(super) fn stays(&mut self) {
        self.0 = None;
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        if let Some((function, id)) = self.0.take() {
            let now_us = function.now_us();
            let mut state = function.lock();
            state.cancel(id);
            state.pump(now_us);
        }
    }
}
