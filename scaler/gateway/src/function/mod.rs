//! Queue and instances of one function, for tasks that wait.

mod endpoint;
mod grant;
mod refusal;
mod state;
mod timer;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tetris_scaler_dispatch::{Capacity, FunctionLoad, RequestId, Rules};
use tokio::runtime::Handle;
use tokio::sync::Notify;

pub use endpoint::{Endpoint, EndpointLoad};
pub use grant::Grant;
pub use refusal::Refusal;

use state::{State, Wait};

/// Name of a function: its namespace, if it has one, and its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FunctionName {
    /// Namespace; empty for functions of a file.
    pub namespace: String,
    /// Name within the namespace.
    pub name: String,
}

impl std::fmt::Display for FunctionName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.namespace.is_empty() {
            return f.write_str(&self.name);
        }
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// An instance as its source describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// Identity: another instance at the same address has another one.
    pub key: String,
    /// Name for reports, such as the pod's.
    pub name: String,
    /// Name of its configuration, for metrics.
    pub configuration: String,
    /// Address of its server.
    pub address: std::net::SocketAddr,
    /// Capacity by its profile.
    pub capacity: Capacity,
    /// False if it gets no more requests: it is not ready, or it ends.
    pub ready: bool,
}

/// A function: requests wait here for an instance.
#[derive(Debug)]
pub struct Function {
    name: FunctionName,
    began: Instant,
    state: Mutex<State>,
    /// Runtime of the timer: it outlives the thread of any one request.
    runtime: Option<Handle>,
    /// Wakes the timer when the earliest time may have changed.
    changed: Notify,
}

impl Function {
    /// Creates a function without instances.
    pub fn new(name: FunctionName, rules: Rules) -> Arc<Self> {
        Arc::new(Self {
            name,
            began: Instant::now(),
            state: Mutex::new(State::new(rules)),
            runtime: Handle::try_current().ok(),
            changed: Notify::new(),
        })
    }

    /// Name of the function.
    pub const fn name(&self) -> &FunctionName {
        &self.name
    }

    /// Changes the rules of dispatch.
    pub fn set_rules(&self, rules: Rules) {
        self.lock().set_rules(rules);
    }

    /// Replaces the list of instances. Those that are gone keep the requests that they have.
    pub fn set_instances(&self, instances: &[Instance]) {
        let now_us = self.now_us();
        self.lock().set_instances(now_us, instances);
        self.changed.notify_one();
    }

    /// Waits for an instance with room. The grant's end, or its drop, frees the room again.
    ///
    /// # Errors
    ///
    /// Fails if the queue is full, or the wait would be or was too long.
    pub async fn acquire(self: &Arc<Self>, wait: Option<Duration>) -> Result<Grant, Refusal> {
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
    pub async fn acquire_among(
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
    async fn acquire_again(self: &Arc<Self>, id: RequestId) -> Result<Grant, Refusal> {
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
            Wait::Over(given) => return Ok(Grant::new(Arc::clone(self), id, given)),
            Wait::For(waiting) => waiting,
        };
        // Dropped with this future if the client leaves.
        let mut leaving = grant::Leaving::new(self, id);
        let given = waiting.await;
        leaving.stays();
        match given {
            Ok(given) => Ok(Grant::new(Arc::clone(self), id, given)),
            Err(_expired) => Err(Refusal::Expired {
                instances: self.load().available,
            }),
        }
    }

    /// Objective of the function's latency.
    pub fn slo(&self) -> Duration {
        Duration::from_micros(self.lock().slo_us())
    }

    /// Load of the function.
    pub fn load(&self) -> FunctionLoad {
        self.lock().load()
    }

    /// Loads of its instances.
    pub fn endpoints(&self) -> Vec<EndpointLoad> {
        self.lock().endpoints()
    }

    /// Time for which the longest waiting request has waited.
    pub fn oldest_wait(&self) -> Duration {
        let now_us = self.now_us();
        Duration::from_micros(self.lock().oldest_wait_us(now_us))
    }

    fn now_us(&self) -> u64 {
        micros(self.began.elapsed())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
