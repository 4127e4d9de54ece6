//! Requests of a function that wait for one of its instances.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tetris_scaler_dispatch::{FunctionLoad, RequestId, Rules};
use tokio::runtime::Handle;
use tokio::sync::Notify;

use super::state::{State, Wait};
use super::{EndpointLoad, Grant, Instance, Refusal, grant, micros, timer};

/// Queue and instances of a function: requests wait here for an instance.
#[derive(Debug)]
pub(crate) struct FunctionQueue {
    began: Instant,
    state: Mutex<State>,
    /// Runtime of the timer: it outlives the thread of any one request.
    runtime: Option<Handle>,
    /// Wakes the timer when the earliest time may have changed.
    pub(super) changed: Notify,
}

impl FunctionQueue {
    /// Creates a queue without instances.
    pub(super) fn new(rules: Rules) -> Arc<Self> {
        Arc::new(Self {
            began: Instant::now(),
            state: Mutex::new(State::new(rules)),
            runtime: Handle::try_current().ok(),
            changed: Notify::new(),
        })
    }

    /// Changes the rules of dispatch.
    pub(super) fn set_rules(&self, rules: Rules) {
        self.lock().set_rules(rules);
    }

    /// Replaces the list of instances. Those that are gone keep the requests that they have.
    pub(super) fn set_instances(&self, instances: &[Instance]) {
        let now_us = self.now_us();
        self.lock().set_instances(now_us, instances);
        self.changed.notify_one();
    }

    /// Waits for an instance with room. The grant's end, or its drop, frees the room again.
    ///
    /// # Errors
    ///
    /// Fails if the queue is full, or the wait would be or was too long.
    pub(super) async fn acquire(
        self: &Arc<Self>,
        wait: Option<Duration>,
    ) -> Result<Grant, Refusal> {
        let (id, wait) = {
            let now_us = self.now_us();
            let mut state = self.lock();
            let id = state
                .offer(now_us, wait.map(micros))
                .map_err(Refusal::Rejected)?;
            (id, self.wait(&mut state, now_us, id))
        };
        self.granted(id, wait).await
    }

    /// Waits for an instance with room, as [`acquire`](Self::acquire) does, but only for those whose
    /// address is `eligible` now.
    ///
    /// # Errors
    ///
    /// Fails as [`acquire`](Self::acquire), and if no known instance is eligible.
    pub(super) async fn acquire_among(
        self: &Arc<Self>,
        wait: Option<Duration>,
        eligible: impl Fn(std::net::SocketAddr) -> bool,
    ) -> Result<Grant, Refusal> {
        let (id, wait) = {
            let now_us = self.now_us();
            let mut state = self.lock();
            let id = state.offer_among(now_us, wait.map(micros), eligible)?;
            (id, self.wait(&mut state, now_us, id))
        };
        self.granted(id, wait).await
    }

    /// Waits again with a request of which nothing was sent.
    pub(super) async fn acquire_again(self: &Arc<Self>, id: RequestId) -> Result<Grant, Refusal> {
        let wait = {
            let now_us = self.now_us();
            let mut state = self.lock();
            state.give_back(now_us, id);
            self.wait(&mut state, now_us, id)
        };
        self.granted(id, wait).await
    }

    fn wait(self: &Arc<Self>, state: &mut State, now_us: u64, id: RequestId) -> Wait {
        let wait = state.wait(now_us, id);
        if state.is_waiting(id) {
            if state.starts_timer() {
                let timer = timer::run(Arc::clone(self));
                match &self.runtime {
                    Some(runtime) => drop(runtime.spawn(timer)),
                    None => drop(tokio::spawn(timer)),
                }
            } else {
                self.changed.notify_one();
            }
        }
        wait
    }

    async fn granted(self: &Arc<Self>, id: RequestId, wait: Wait) -> Result<Grant, Refusal> {
        let waiting = match wait {
            Wait::Over(given) => return Ok(Grant::on_instance(Arc::clone(self), id, given)),
            Wait::For(waiting) => waiting,
        };
        // Dropped with this future if the client leaves.
        let mut leaving = grant::Leaving::new(self, id);
        let given = waiting.await;
        leaving.stays();
        match given {
            Ok(given) => Ok(Grant::on_instance(Arc::clone(self), id, given)),
            Err(_expired) => Err(Refusal::Expired {
                instances: self.load().available,
            }),
        }
    }

    /// Objective of the function's latency.
    pub(super) fn slo(&self) -> Duration {
        Duration::from_micros(self.lock().slo_us())
    }

    /// Load of the function.
    pub(super) fn load(&self) -> FunctionLoad {
        self.lock().load()
    }

    /// Loads of its instances.
    pub(super) fn endpoints(&self) -> Vec<EndpointLoad> {
        self.lock().endpoints()
    }

    /// Time for which the longest waiting request has waited.
    pub(super) fn oldest_wait(&self) -> Duration {
        let now_us = self.now_us();
        Duration::from_micros(self.lock().oldest_wait_us(now_us))
    }

    pub(super) fn now_us(&self) -> u64 {
        micros(self.began.elapsed())
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
