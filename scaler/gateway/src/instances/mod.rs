//! Instances of one function, and the requests that wait for one of them.
//!
//! - `state`: the dispatcher of [`tetris_scaler_dispatch`], its waiting tasks and its endpoints
//! - `shared`: that state behind its lock
//! - `timer`: the end of waits and of ejections
//! - `grant`: a request that waits, and the right to send it

mod grant;
mod shared;
mod state;
mod timer;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tetris_scaler_dispatch::{FunctionLoad, Rules};

use crate::clock::micros;
use crate::endpoint::{EndpointLoad, Instance};
use crate::refusal::Refusal;

use grant::Request;
use shared::SharedQueue;

pub(crate) use grant::InstanceGrant;

/// Queue and instances of a function: requests wait here for an instance.
#[derive(Debug)]
pub(crate) struct InstanceQueue {
    shared: Arc<SharedQueue>,
}

impl InstanceQueue {
    /// Creates a queue without instances.
    pub(crate) fn new(rules: Rules) -> Self {
        Self {
            shared: SharedQueue::new(rules),
        }
    }

    /// Changes the rules of dispatch.
    pub(crate) fn set_rules(&self, rules: Rules) {
        self.shared.lock().set_rules(rules);
    }

    /// Replaces the list of instances. Those that are gone keep the requests that they have.
    pub(crate) fn set_instances(&self, instances: &[Instance]) {
        let now_us = self.shared.now_us();
        self.shared.lock().set_instances(now_us, instances);
        self.shared.changed.notify_one();
    }

    /// Waits for an instance with room. The grant's end, or its drop, frees the room again.
    ///
    /// # Errors
    ///
    /// Fails if the queue is full, or the wait would be or was too long.
    pub(crate) async fn acquire(&self, wait: Option<Duration>) -> Result<InstanceGrant, Refusal> {
        let (request, wait) = {
            let now_us = self.shared.now_us();
            let mut state = self.shared.lock();
            let offered = state.offer(now_us, wait.map(micros));
            let (id, given) = offered.map_err(Refusal::Rejected)?;
            let request = Request::new(&self.shared, id);
            // Most requests wait for nothing, and need no one to tell them.
            if let Some(given) = given {
                return Ok(request.on(given));
            }
            let wait = request.wait(&mut state, now_us);
            (request, wait)
        };
        request.granted(wait).await
    }

    /// Waits for an instance with room, as [`acquire`](Self::acquire) does, but only for those whose
    /// address is `eligible` now.
    ///
    /// # Errors
    ///
    /// Fails as [`acquire`](Self::acquire), and if no known instance is eligible.
    pub(crate) async fn acquire_among(
        &self,
        wait: Option<Duration>,
        eligible: impl Fn(SocketAddr) -> bool,
    ) -> Result<InstanceGrant, Refusal> {
        let (request, wait) = {
            let now_us = self.shared.now_us();
            let mut state = self.shared.lock();
            let id = state.offer_among(now_us, wait.map(micros), eligible)?;
            let request = Request::new(&self.shared, id);
            let wait = request.wait(&mut state, now_us);
            (request, wait)
        };
        request.granted(wait).await
    }

    /// Objective of the function's latency.
    pub(crate) fn slo(&self) -> Duration {
        Duration::from_micros(self.shared.lock().slo_us())
    }

    /// Load of the function.
    pub(crate) fn load(&self) -> FunctionLoad {
        self.shared.lock().load()
    }

    /// Loads of its instances.
    pub(crate) fn endpoints(&self) -> Vec<EndpointLoad> {
        self.shared.lock().endpoints()
    }

    /// Time for which the longest waiting request has waited.
    pub(crate) fn oldest_wait(&self) -> Duration {
        let now_us = self.shared.now_us();
        Duration::from_micros(self.shared.lock().oldest_wait_us(now_us))
    }
}
