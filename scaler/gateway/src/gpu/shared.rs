//! State of a pool that its tasks share: behind a lock, with a clock.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tetris_scaler_dispatch::gpu::{GpuId, ModelId};
use tetris_scaler_dispatch::{Outcome, RequestId};
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};

use super::client;
use super::learn::Question;
use super::state::{Answer, GivenBack, State, Unload};
use super::status::GpuStatus;
use crate::clock::{Clock, micros};
use crate::refusal::Refusal;

/// State of a pool.
#[derive(Debug)]
pub(super) struct SharedPool {
    clock: Clock,
    state: Mutex<State>,
    /// Wakes the timer when the earliest time may have changed.
    pub changed: Arc<Notify>,
    /// Runtime of the pool's tasks.
    pub runtime: Handle,
}

impl SharedPool {
    /// Shares a state in the current runtime.
    pub(super) fn new(state: State) -> Arc<Self> {
        Arc::new(Self {
            clock: Clock::start(),
            state: Mutex::new(state),
            changed: Arc::default(),
            runtime: Handle::current(),
        })
    }

    /// Queues a request.
    pub(super) fn offer(
        &self,
        of: (u32, ModelId),
        slo: Duration,
    ) -> Result<(RequestId, oneshot::Receiver<Answer>), Refusal> {
        let offered = self.lock().offer(self.now_us(), of, micros(slo));
        self.changed.notify_one();
        offered
    }

    /// Removes a request whose client has left, or that has waited for as long as it may.
    pub(super) fn cancel(&self, id: RequestId) {
        self.lock().cancel(self.now_us(), id);
    }

    /// Ends a request that an executor got.
    pub(super) fn complete(&self, id: RequestId, outcome: Outcome) {
        let moved = self.lock().complete(self.now_us(), id, outcome);
        self.unload(moved);
    }

    /// Notes that an executor has taken the orders for its request.
    pub(super) fn ordered(&self, gpu: GpuId) {
        self.lock().ordered(gpu);
    }

    /// Lets a request wait again that its executor did not get.
    pub(super) fn give_back(
        &self,
        id: RequestId,
        reason: &GivenBack,
    ) -> Option<oneshot::Receiver<Answer>> {
        let receiver = self.lock().give_back(self.now_us(), id, reason);
        self.changed.notify_one();
        receiver
    }

    /// Notes that an executor does not answer.
    pub(super) fn lost(&self, gpu: GpuId, reason: &str) {
        let now_us = self.now_us();
        let mut state = self.lock();
        state.lost(gpu, reason);
        state.pump(now_us);
    }

    /// Question for an executor's next page, if the configuration still has it.
    pub(super) fn question(&self, gpu: GpuId) -> Option<Question> {
        self.lock().question(gpu)
    }

    /// Takes a page.
    pub(super) fn learn(&self, gpu: GpuId, question: Question, status: &GpuStatus) {
        let orders = self.lock().learn(self.now_us(), gpu, question, status);
        self.unload(orders);
    }

    /// Sends orders that nobody waits for. One that is lost is given again with the next page.
    fn unload(&self, orders: impl IntoIterator<Item = Unload>) {
        for (executor, model) in orders {
            self.runtime.spawn(async move {
                if let Err(error) = client::unload(&executor, &model).await {
                    let executor = executor.endpoint.address;
                    tracing::debug!(%executor, model, "unload: {error}");
                }
            });
        }
    }

    /// Refuses and dispatches, and returns the time until the next event.
    pub(super) fn pump(&self) -> Option<Duration> {
        let now_us = self.now_us();
        let mut state = self.lock();
        state.pump(now_us);
        let next_us = state.next_us(now_us)?;
        Some(Duration::from_micros(next_us.saturating_sub(now_us)))
    }

    pub(super) fn now_us(&self) -> u64 {
        self.clock.now_us()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for SharedPool {
    fn drop(&mut self) {
        // Its timer ends.
        self.changed.notify_one();
    }
}
