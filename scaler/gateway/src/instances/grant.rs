//! Grants: the right to send one request to one instance.

use std::sync::Arc;
use std::time::Duration;

use tetris_scaler_dispatch::{Outcome, RequestId};
use tokio::sync::oneshot;

use super::shared::SharedQueue;
use super::state::{Given, State};
use super::timer;
use crate::endpoint::Endpoint;
use crate::refusal::Refusal;

/// A request of the queue. Dropped before its end, it counts as left by its client.
#[derive(Debug)]
pub(super) struct Request {
    queue: Arc<SharedQueue>,
    id: RequestId,
    ended: bool,
}

/// The right to send one request to one instance.
#[derive(Debug)]
pub(crate) struct InstanceGrant {
    request: Request,
    endpoint: Arc<Endpoint>,
    waited: Duration,
}

impl Request {
    /// Takes a request that the queue has accepted.
    pub(super) fn new(queue: &Arc<SharedQueue>, id: RequestId) -> Self {
        Self {
            queue: Arc::clone(queue),
            id,
            ended: false,
        }
    }

    /// Begins its wait for an instance in the queue of `state`.
    pub(super) fn wait(&self, state: &mut State, now_us: u64) -> oneshot::Receiver<Given> {
        let wait = state.wait(now_us, self.id);
        if state.is_waiting(self.id) {
            timer::wake(&self.queue, state);
        }
        wait
    }

    /// Waits for an instance.
    pub(super) async fn granted(
        mut self,
        wait: oneshot::Receiver<Given>,
    ) -> Result<InstanceGrant, Refusal> {
        let Ok(given) = wait.await else {
            self.ended = true;
            let instances = self.queue.lock().load().available;
            return Err(Refusal::Expired { instances });
        };
        Ok(self.on(given))
    }

    /// Gives it its instance.
    pub(super) fn on(self, given: Given) -> InstanceGrant {
        let Given {
            endpoint,
            waited_us,
        } = given;
        InstanceGrant {
            request: self,
            endpoint,
            waited: Duration::from_micros(waited_us),
        }
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        if !self.ended {
            self.queue.cancel(self.id);
        }
    }
}

impl InstanceGrant {
    /// The instance.
    pub(crate) const fn endpoint(&self) -> &Arc<Endpoint> {
        &self.endpoint
    }

    /// Time for which the request has waited.
    pub(crate) const fn waited(&self) -> Duration {
        self.waited
    }

    /// Waits for another instance with a request of which nothing was sent.
    pub(crate) async fn unreachable(self) -> Result<Self, Refusal> {
        let request = self.request;
        let wait = {
            let now_us = request.queue.now_us();
            let mut state = request.queue.lock();
            state.give_back(now_us, request.id);
            request.wait(&mut state, now_us)
        };
        request.granted(wait).await
    }

    /// Ends the request. Returns the time that its batch waited to be filled.
    pub(crate) fn end(mut self, outcome: Outcome) -> Duration {
        self.request.ended = true;
        self.request.queue.complete(self.request.id, outcome)
    }
}
