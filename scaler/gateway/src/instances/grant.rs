//! Grants: the right to send one request to one instance.

use std::sync::Arc;
use std::time::Duration;

use tetris_scaler_dispatch::{Outcome, RequestId};

use super::shared::SharedQueue;
use super::state::{Given, State, Wait};
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
    /// Takes a request that the queue of `state` has accepted, and begins its wait.
    pub(super) fn begin(
        queue: &Arc<SharedQueue>,
        state: &mut State,
        now_us: u64,
        id: RequestId,
    ) -> (Self, Wait) {
        let request = Self {
            queue: Arc::clone(queue),
            id,
            ended: false,
        };
        let wait = request.wait(state, now_us);
        (request, wait)
    }

    fn wait(&self, state: &mut State, now_us: u64) -> Wait {
        let wait = state.wait(now_us, self.id);
        if state.is_waiting(self.id) {
            timer::wake(&self.queue, state);
        }
        wait
    }

    /// Waits for an instance.
    pub(super) async fn granted(mut self, wait: Wait) -> Result<InstanceGrant, Refusal> {
        let given = match wait {
            Wait::Over(given) => given,
            Wait::For(waiting) => match waiting.await {
                Ok(given) => given,
                Err(_expired) => {
                    self.ended = true;
                    let instances = self.queue.lock().load().available;
                    return Err(Refusal::Expired { instances });
                }
            },
        };
        let Given {
            endpoint,
            waited_us,
        } = given;
        Ok(InstanceGrant {
            request: self,
            endpoint,
            waited: Duration::from_micros(waited_us),
        })
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

    /// Ends the request.
    pub(crate) fn end(mut self, outcome: Outcome) {
        self.request.ended = true;
        self.request.queue.complete(self.request.id, outcome);
    }
}
