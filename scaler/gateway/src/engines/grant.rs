//! Grants: the right to send one request to its engine, which is awake.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tetris_scaler_dispatch::{Outcome, RequestId};
use tokio::sync::oneshot;

use super::cut::Cut;
use super::engine::Engine;
use super::shared::{Answer, SharedGroup};
use crate::endpoint::Endpoint;
use crate::refusal::Refusal;

/// A request of a group. Dropped before its end, it counts as left by its client.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) group: Arc<SharedGroup>,
    pub(super) engine: Arc<Engine>,
    pub(super) id: RequestId,
    /// Time at which it gives up waiting.
    pub(super) until: Instant,
}

/// The right to send one request to its engine.
#[derive(Debug)]
pub(crate) struct EngineGrant {
    request: Request,
    waited: Duration,
    cut: Cut,
}

impl Request {
    /// Waits for the engine.
    pub(super) async fn granted(
        self,
        waiting: oneshot::Receiver<Answer>,
    ) -> Result<EngineGrant, Refusal> {
        let until = tokio::time::Instant::from_std(self.until);
        let Ok(Ok(answer)) = tokio::time::timeout_at(until, waiting).await else {
            return Err(Refusal::NotAwake);
        };
        let given = answer.map_err(Refusal::Engine)?;
        Ok(EngineGrant {
            waited: Duration::from_micros(given.waited_us),
            cut: given.cut,
            request: self,
        })
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        self.group.complete(self.id);
    }
}

impl EngineGrant {
    /// The engine.
    pub(crate) fn endpoint(&self) -> &Arc<Endpoint> {
        &self.request.engine.endpoint
    }

    /// Time for which the request has waited.
    pub(crate) const fn waited(&self) -> Duration {
        self.waited
    }

    /// Takes the signal of the request's end before its time.
    pub(crate) const fn take_cut(&mut self) -> Cut {
        std::mem::replace(&mut self.cut, Cut::never())
    }

    /// Waits again: the engine could not be reached.
    pub(crate) async fn unreachable(self) -> Result<Self, Refusal> {
        let request = self.request;
        let waiting = request.group.give_back(request.id, request.engine.id);
        request.granted(waiting).await
    }

    /// Ends the request. After a failure the engine is asked for its state.
    pub(crate) fn end(self, outcome: Outcome) {
        if outcome == Outcome::Failed {
            self.request.group.ask(self.request.engine.id);
        }
    }
}
