//! Grants: the right to send one request to one instance.

use std::sync::Arc;
use std::time::Duration;

use tetris_scaler_dispatch::{Outcome, RequestId};

use super::queue::FunctionQueue;
use super::state::Given;
use super::{Endpoint, Refusal};
use crate::gpu::GpuGrant;

/// The right to send one request to one instance. Dropped without an outcome, the request counts as
/// left by its client.
#[derive(Debug)]
pub struct Grant {
    held: Held,
    endpoint: Arc<Endpoint>,
    waited: Duration,
}

#[derive(Debug)]
enum Held {
    Instance(Leaving),
    Gpu(GpuGrant),
}

impl Grant {
    pub(super) fn on_instance(queue: Arc<FunctionQueue>, id: RequestId, given: Given) -> Self {
        Self {
            held: Held::Instance(Leaving(Some((queue, id)))),
            endpoint: given.endpoint,
            waited: Duration::from_micros(given.waited_us),
        }
    }

    pub(super) fn on_gpu(grant: GpuGrant) -> Self {
        Self {
            endpoint: Arc::clone(grant.endpoint()),
            waited: grant.waited(),
            held: Held::Gpu(grant),
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

    /// True if the request may be sent again after a part of it was, and no answer came.
    pub const fn repeats(&self) -> bool {
        match &self.held {
            Held::Instance(_) => false,
            Held::Gpu(grant) => grant.repeats(),
        }
    }

    /// The instance could not be reached: waits for another one. Nothing was sent, or the request
    /// [`repeats`](Self::repeats).
    ///
    /// # Errors
    ///
    /// As [`Function::acquire`](super::Function::acquire).
    pub async fn unreachable(self) -> Result<Self, Refusal> {
        match self.held {
            Held::Instance(mut leaving) => {
                let Some((queue, id)) = leaving.0.take() else {
                    return Err(Refusal::Expired { instances: 0 });
                };
                queue.acquire_again(id).await
            }
            Held::Gpu(grant) => Ok(Self::on_gpu(grant.unreachable().await?)),
        }
    }

    fn end(self, outcome: Outcome) {
        match self.held {
            Held::Instance(mut leaving) => {
                if let Some((queue, id)) = leaving.0.take() {
                    let now_us = queue.now_us();
                    let mut state = queue.lock();
                    state.complete(now_us, id, outcome);
                    state.pump(now_us);
                }
            }
            Held::Gpu(grant) => grant.end(outcome),
        }
    }
}

/// Takes a request from the dispatcher when it is dropped.
#[derive(Debug)]
pub(super) struct Leaving(Option<(Arc<FunctionQueue>, RequestId)>);

impl Leaving {
    pub(super) fn new(queue: &Arc<FunctionQueue>, id: RequestId) -> Self {
        Self(Some((Arc::clone(queue), id)))
    }

    pub(super) fn stays(&mut self) {
        self.0 = None;
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        if let Some((queue, id)) = self.0.take() {
            let now_us = queue.now_us();
            let mut state = queue.lock();
            state.cancel(id);
            state.pump(now_us);
        }
    }
}
