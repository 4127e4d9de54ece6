//! Functions of a group: each is one engine.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tetris_scaler_dispatch::FunctionLoad;
use tetris_scaler_dispatch::engines::EngineState;

use super::engine::Engine;
use super::grant::{EngineGrant, Request};
use super::shared::SharedGroup;
use crate::candidate::Candidate;
use crate::refusal::Refusal;

/// An engine of a group, as a function.
#[derive(Debug)]
pub(crate) struct EngineMember {
    pub(super) group: Arc<SharedGroup>,
    pub(super) engine: Arc<Engine>,
}

impl EngineMember {
    /// Waits until the engine is awake, and takes the request.
    pub(crate) async fn acquire(&self, wait: Option<Duration>) -> Result<EngineGrant, Refusal> {
        let longest = self.group.settings.wait;
        let wait = wait.map_or(longest, |wait| wait.min(longest));
        let offered = self.group.offer(self.engine.id).map_err(Refusal::Engine)?;
        let (id, waiting) = offered;
        let request = Request {
            group: Arc::clone(&self.group),
            engine: Arc::clone(&self.engine),
            id,
            until: Instant::now() + wait,
        };
        request.granted(waiting).await
    }

    pub(crate) fn slo(&self) -> Duration {
        self.group.settings.slo
    }

    pub(crate) fn load(&self) -> FunctionLoad {
        let state = self.group.lock();
        let (waiting, in_flight) = state.group.load(self.engine.id);
        let is_awake = state.group.state(self.engine.id) == Some(EngineState::Awake);
        FunctionLoad {
            waiting,
            in_flight,
            available: is_awake.into(),
        }
    }

    pub(crate) fn oldest_wait(&self) -> Duration {
        let now_us = self.group.now_us();
        let oldest = self.group.lock().group.oldest_us(self.engine.id);
        Duration::from_micros(oldest.map_or(0, |at| now_us.saturating_sub(at)))
    }

    /// The engine as it is now.
    pub(crate) fn candidates(&self) -> Vec<Candidate> {
        let state = self.group.lock();
        let label = state.group.state(self.engine.id);
        let label = label.filter(|&of| of != EngineState::Awake);
        vec![Candidate {
            name: self.engine.settings.name.clone(),
            outstanding: state.group.load(self.engine.id).1 as u64,
            room: self.engine.settings.rules.requests as u64,
            excluded: label.map(EngineState::label),
        }]
    }
}
