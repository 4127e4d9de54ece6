//! A pool of GPUs, for tasks that wait.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tetris_scaler_dispatch::gpu::{GpuId, GpuPolicy, ModelId};
use tetris_scaler_dispatch::{Outcome, RequestId};
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};

use super::learn::Question;
use super::models::Times;
use super::report::PoolReport;
use super::state::{Answer, GivenBack, State, Unload};
use super::status::GpuStatus;
use super::{client, executor, timer};
use crate::function::{Refusal, micros};

/// A pool of GPUs.
#[derive(Debug)]
pub(crate) struct GpuPool {
    name: String,
    began: Instant,
    poll: Duration,
    state: Mutex<State>,
    /// Wakes the timer when the earliest time may have changed.
    changed: Arc<Notify>,
    runtime: Handle,
}

impl GpuPool {
    /// Creates a pool without executors, and starts its timer in the current runtime.
    pub(crate) fn new(name: &str, policy: GpuPolicy, queue: usize, poll: Duration) -> Arc<Self> {
        let runtime = Handle::current();
        let pool = Arc::new(Self {
            name: name.to_owned(),
            began: Instant::now(),
            poll,
            state: Mutex::new(State::new(policy, queue)),
            changed: Arc::default(),
            runtime,
        });
        pool.runtime.spawn(timer::run(Arc::downgrade(&pool)));
        pool
    }

    /// Replaces the list of executors. One that is gone ends the request that it has.
    pub(crate) fn set_executors(self: &Arc<Self>, addresses: &[SocketAddr]) {
        let mut state = self.lock();
        let gone: Vec<GpuId> = state
            .executors
            .iter()
            .filter(|known| known.listed && !addresses.contains(&known.executor.endpoint.address))
            .map(|known| known.executor.gpu)
            .collect();
        for gpu in gone {
            state.lost(gpu, "the configuration does not have it any more");
            if let Some(known) = state.executors.get_mut(gpu.0 as usize) {
                known.listed = false;
            }
        }
        for &address in addresses {
            let mut known = state.executors.iter();
            if known.any(|one| one.listed && one.executor.endpoint.address == address) {
                continue;
            }
            let executor = state.add(address);
            self.runtime
                .spawn(executor::follow(Arc::downgrade(self), executor));
        }
        state.pump(self.now_us());
    }

    /// Number of a model, with the times of its inference.
    pub(super) fn model(&self, name: &str, times: Times) -> ModelId {
        let mut state = self.lock();
        let State {
            models, scheduler, ..
        } = &mut *state;
        let id = models.number(scheduler, name, times);
        for known in &mut state.executors {
            known.needs_parts = true;
            known.executor.changed.notify_one();
        }
        id
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

    pub(super) fn cancel(&self, id: RequestId) {
        self.lock().cancel(self.now_us(), id);
    }

    pub(super) fn complete(&self, id: RequestId, outcome: Outcome) {
        let moved = self.lock().complete(self.now_us(), id, outcome);
        self.unload(moved);
    }

    pub(super) fn give_back(
        &self,
        id: RequestId,
        reason: &GivenBack,
    ) -> Option<oneshot::Receiver<Answer>> {
        let receiver = self.lock().give_back(self.now_us(), id, reason);
        self.changed.notify_one();
        receiver
    }

    pub(super) fn lost(&self, gpu: GpuId, reason: &str) {
        let now_us = self.now_us();
        let mut state = self.lock();
        state.lost(gpu, reason);
        state.pump(now_us);
    }

    pub(super) fn question(&self, gpu: GpuId) -> Option<Question> {
        self.lock().question(gpu)
    }

    pub(super) fn learn(&self, gpu: GpuId, question: Question, status: &GpuStatus) {
        let orders = self.lock().learn(self.now_us(), gpu, question, status);
        self.unload(orders);
    }

    /// Sends orders that nobody waits for. One that is lost is given again with the next page.
    fn unload(&self, orders: impl IntoIterator<Item = Unload>) {
        for (executor, model) in orders {
            self.runtime.spawn(async move {
                if let Err(error) = client::unload(&executor.endpoint, &model).await {
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

    pub(super) const fn changed(&self) -> &Arc<Notify> {
        &self.changed
    }

    pub(super) const fn poll(&self) -> Duration {
        self.poll
    }

    /// Waiting and running requests of a function, and the longest wait.
    pub(super) fn load_of(&self, function: u32) -> (usize, usize, Duration) {
        let now_us = self.now_us();
        let (waiting, running, first) = self.lock().load_of(function);
        let wait_us = first.map_or(0, |first| now_us.saturating_sub(first));
        (waiting, running, Duration::from_micros(wait_us))
    }

    pub(super) fn available(&self) -> usize {
        self.lock().available()
    }

    /// Numbers for metrics.
    pub(crate) fn report(&self) -> PoolReport {
        let state = self.lock();
        let listed = state.executors.iter().filter(|known| known.listed).count();
        let available = state.available();
        PoolReport {
            name: self.name.clone(),
            totals: state.totals,
            waiting: state.scheduler.waiting(),
            available,
            lost: listed.saturating_sub(available),
        }
    }

    fn now_us(&self) -> u64 {
        micros(self.began.elapsed())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for GpuPool {
    fn drop(&mut self) {
        // Its timer ends.
        self.changed.notify_one();
    }
}
