//! State of a pool that its tasks share: behind a lock, with a clock.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tetris_scaler_dispatch::gpu::{GpuId, ModelId};
use tetris_scaler_dispatch::{Outcome, RequestId};
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};

use super::client::{self, PageMemory};
use super::executor::Executor;
use super::learn::Question;
use super::page_error::PageError;
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
    /// Memory for pages.
    pub pages: PageMemory,
    /// Orders to unload that are under way, so that no page gives one twice.
    unloading: Arc<Mutex<HashSet<(SocketAddr, String)>>>,
}

impl SharedPool {
    /// Shares a state in the current runtime.
    pub(super) fn new(state: State, pages: PageMemory) -> Arc<Self> {
        Arc::new(Self {
            clock: Clock::start(),
            state: Mutex::new(state),
            changed: Arc::default(),
            runtime: Handle::current(),
            pages,
            unloading: Arc::default(),
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
    pub(super) fn lost(&self, executor: &Arc<Executor>, reason: &str) {
        let now_us = self.now_us();
        let mut state = self.lock();
        if state.has(executor) {
            state.lost(executor.gpu, reason);
            state.pump(now_us);
        }
    }

    /// Question for an executor's next page, if the configuration still has it.
    pub(super) fn question(&self, executor: &Arc<Executor>) -> Option<Question> {
        self.lock().question(executor)
    }

    /// Notes that an executor's page is above a limit or cannot be read.
    pub(super) fn refuse(&self, executor: &Arc<Executor>, reason: &str) {
        let now_us = self.now_us();
        let mut state = self.lock();
        if state.has(executor) {
            state.refuse(now_us, executor.gpu, reason);
            state.pump(now_us);
        }
    }

    /// Takes a page. Returns true if a model is on its way to the GPU.
    pub(super) fn learn(&self, executor: &Arc<Executor>, question: Question, page: &[u8]) -> bool {
        match self.try_learn(executor, question, page) {
            Ok(loads) => loads,
            Err(reason) => {
                self.refuse(executor, &reason.to_string());
                false
            }
        }
    }

    fn try_learn(
        &self,
        executor: &Arc<Executor>,
        question: Question,
        page: &[u8],
    ) -> Result<bool, PageError> {
        let status = GpuStatus::parse(page)?;
        // Their parts are read without the lock.
        let (new, numbers) = self.lock().new_models(&status);
        let contents = numbers.read(&new)?;
        let mut state = self.lock();
        if !state.has(executor) {
            return Ok(false);
        }
        let orders = state.learn(self.now_us(), executor.gpu, question, &status, contents)?;
        drop(state);
        self.unload(orders);
        Ok(status.loads())
    }

    /// Sends orders that no one waits for. One that is lost is given again with the next page.
    fn unload(&self, orders: impl IntoIterator<Item = Unload>) {
        for (executor, model) in orders {
            let order = (executor.endpoint.address, model.clone());
            if !locked(&self.unloading).insert(order.clone()) {
                continue;
            }
            let unloading = Arc::clone(&self.unloading);
            self.runtime.spawn(async move {
                if let Err(error) = client::unload(&executor, &model).await {
                    let executor = executor.endpoint.address;
                    tracing::debug!(%executor, model, "unload: {error}");
                }
                locked(&unloading).remove(&order);
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
        locked(&self.state)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for SharedPool {
    fn drop(&mut self) {
        // Its timer ends.
        self.changed.notify_one();
    }
}
