//! A pool of GPUs, for tasks that wait.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tetris_scaler_dispatch::gpu::{GpuId, GpuPolicy, ModelId};

use super::client::PageMemory;
use super::executor::ExecutorAddresses;
use super::grant::{GpuGrant, Request};
use super::models::Times;
use super::report::PoolReport;
use super::shared::SharedPool;
use super::state::State;
use super::{follow, timer};
use crate::candidate::Candidate;
use crate::refusal::Refusal;

/// A pool of GPUs.
#[derive(Debug)]
pub(crate) struct GpuPool {
    name: String,
    poll: Duration,
    shared: Arc<SharedPool>,
}

impl GpuPool {
    /// Creates a pool without executors, and starts its timer in the current runtime.
    pub(crate) fn new(
        name: &str,
        policy: Arc<dyn GpuPolicy>,
        queue: usize,
        poll: Duration,
        pages: PageMemory,
    ) -> Arc<Self> {
        let shared = SharedPool::new(State::new(policy, queue), pages);
        shared.runtime.spawn(timer::run(Arc::downgrade(&shared)));
        Arc::new(Self {
            name: name.to_owned(),
            poll,
            shared,
        })
    }

    /// Replaces the list of executors. One that is gone ends the request that it has.
    pub(crate) fn set_executors(&self, addresses: &[ExecutorAddresses]) {
        let mut state = self.shared.lock();
        let gone: Vec<GpuId> = state
            .executors
            .iter()
            .filter(|(_, known)| known.listed && !addresses.contains(&known.executor.addresses))
            .map(|(&gpu, _)| gpu)
            .collect();
        for gpu in gone {
            state.leave(gpu);
        }
        for executor in addresses {
            let mut all = state.executors.values();
            if all.any(|known| known.listed && known.executor.addresses == *executor) {
                continue;
            }
            let executor = state.add(executor.clone());
            let shared = Arc::downgrade(&self.shared);
            let following = follow::run(shared, executor, self.poll);
            self.shared.runtime.spawn(following);
        }
        state.pump(self.shared.now_us());
    }

    /// Number of a model, with the times of its inference.
    pub(super) fn model(&self, name: &str, times: Times) -> ModelId {
        let mut state = self.shared.lock();
        let State {
            models, scheduler, ..
        } = &mut *state;
        let id = models.number(scheduler, name, times);
        for known in state.executors.values_mut() {
            known.needs_parts = true;
            known.executor.changed.notify_one();
        }
        id
    }

    /// Waits for a GPU for a request, `of` a function and a model. It may be sent again after a part
    /// of it was if it `repeats`.
    pub(super) async fn acquire(
        &self,
        of: (u32, ModelId),
        slo: Duration,
        wait: Duration,
        repeats: bool,
    ) -> Result<GpuGrant, Refusal> {
        let until = Instant::now() + wait;
        let (id, waiting) = self.shared.offer(of, slo)?;
        let request = Request::new(Arc::clone(&self.shared), id, until, repeats);
        request.granted(waiting).await
    }

    /// Waiting and running requests of a function, and the longest wait.
    pub(super) fn load_of(&self, function: u32) -> (usize, usize, Duration) {
        let now_us = self.shared.now_us();
        let (waiting, running, first) = self.shared.lock().load_of(function);
        let wait_us = first.map_or(0, |first| now_us.saturating_sub(first));
        (waiting, running, Duration::from_micros(wait_us))
    }

    /// Executors as they are now.
    pub(super) fn candidates(&self) -> Vec<Candidate> {
        let now_us = self.shared.now_us();
        self.shared.lock().candidates(now_us)
    }

    /// Number of executors that get requests.
    pub(super) fn available(&self) -> usize {
        self.shared.lock().available()
    }

    /// Numbers for metrics.
    pub(crate) fn report(&self) -> PoolReport {
        let state = self.shared.lock();
        let listed = || state.executors.values().filter(|known| known.listed);
        let unusable = listed().filter(|known| known.is_unusable).count();
        let listed = listed().count();
        let available = state.available();
        PoolReport {
            name: self.name.clone(),
            totals: state.totals,
            waiting: state.scheduler.waiting(),
            available,
            lost: listed.saturating_sub(available),
            unusable,
        }
    }
}
