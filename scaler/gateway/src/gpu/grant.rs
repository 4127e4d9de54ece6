//! Grants: the right to send one request to one executor, whose orders for it are given.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tetris_scaler_dispatch::{Outcome, RequestId};
use tokio::sync::oneshot;

use super::client::{self, CallError};
use super::shared::SharedPool;
use super::state::{Answer, Given, GivenBack};
use crate::endpoint::Endpoint;
use crate::refusal::Refusal;

/// A request of the pool. Dropped before its end, it counts as left by its client.
#[derive(Debug)]
pub(super) struct Request {
    pool: Arc<SharedPool>,
    id: RequestId,
    /// Time at which it gives up waiting.
    until: Instant,
    /// True if it may be sent again after a part of it was.
    repeats: bool,
    ended: bool,
}

/// The right to send one request to one executor.
#[derive(Debug)]
pub(crate) struct GpuGrant {
    request: Request,
    endpoint: Arc<Endpoint>,
    waited: Duration,
}

impl Request {
    pub(super) const fn new(
        pool: Arc<SharedPool>,
        id: RequestId,
        until: Instant,
        repeats: bool,
    ) -> Self {
        Self {
            pool,
            id,
            until,
            repeats,
            ended: false,
        }
    }

    /// Waits for a GPU whose executor has taken the orders for this request.
    pub(super) async fn granted(
        mut self,
        mut waiting: oneshot::Receiver<Answer>,
    ) -> Result<GpuGrant, Refusal> {
        loop {
            let until = tokio::time::Instant::from_std(self.until);
            let Ok(Ok(answer)) = tokio::time::timeout_at(until, waiting).await else {
                let instances = self.pool.lock().available();
                return Err(Refusal::Expired { instances });
            };
            let given = answer.inspect_err(|_| self.ended = true)?;
            let reason = match order(&given).await {
                Ok(()) => {
                    if given.load.is_some() {
                        self.pool.ordered(given.executor.gpu);
                    }
                    return Ok(GpuGrant {
                        endpoint: Arc::clone(&given.executor.endpoint),
                        waited: Duration::from_micros(given.waited_us),
                        request: self,
                    });
                }
                Err(error @ CallError::Refused { .. }) => GivenBack::Refused(error.to_string()),
                Err(_) => GivenBack::Unreachable,
            };
            waiting = self.again(&reason)?;
        }
    }

    fn again(&self, reason: &GivenBack) -> Result<oneshot::Receiver<Answer>, Refusal> {
        let waiting = self.pool.give_back(self.id, reason);
        waiting.ok_or(Refusal::Expired { instances: 0 })
    }
}

/// Gives the orders before a request: one after the other, so that there is room.
async fn order(given: &Given) -> Result<(), CallError> {
    let Some(load) = &given.load else {
        return Ok(());
    };
    for evicted in &load.evicted {
        client::unload(&given.executor, evicted).await?;
    }
    client::load(&given.executor, &load.model).await
}

impl Drop for Request {
    fn drop(&mut self) {
        if !self.ended {
            self.pool.cancel(self.id);
        }
    }
}

impl GpuGrant {
    /// The executor.
    pub(crate) const fn endpoint(&self) -> &Arc<Endpoint> {
        &self.endpoint
    }

    /// Time for which the request has waited.
    pub(crate) const fn waited(&self) -> Duration {
        self.waited
    }

    /// True if the request may be sent again after a part of it was.
    pub(crate) const fn repeats(&self) -> bool {
        self.request.repeats
    }

    /// Waits for another GPU.
    pub(crate) async fn unreachable(self) -> Result<Self, Refusal> {
        let waiting = self.request.again(&GivenBack::Unreachable)?;
        self.request.granted(waiting).await
    }

    /// Ends the request.
    pub(crate) fn end(mut self, outcome: Outcome) {
        self.request.ended = true;
        self.request.pool.complete(self.request.id, outcome);
    }
}
