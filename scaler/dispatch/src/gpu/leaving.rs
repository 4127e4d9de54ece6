//! Requests that leave before their end, and estimates for those that wait.

use crate::id::RequestId;

use super::pool::GpuState;
use super::request::GpuRequest;
use super::scheduler::GpuScheduler;
use super::topology::GpuId;

impl GpuScheduler {
    /// Removes a request whose client has left, wherever it is. Returns the GPU that executed it,
    /// which is idle again. It counts neither as in time nor as late.
    pub fn cancel(&mut self, now_us: u64, id: RequestId) -> Option<GpuId> {
        if !self.known.remove(&id) {
            return None;
        }
        if self.queue.remove(id).is_some() {
            return None;
        }
        for state in &mut self.pool.gpus {
            state.local.retain(|entry| entry.request.id != id);
        }
        let gpu = self.gpu_of(id)?;
        self.stop(now_us, gpu);
        Some(gpu)
    }

    /// Queues a dispatched request again, of which nothing was executed, at the place of its arrival.
    /// Returns the GPU that had it, which is idle again.
    pub fn give_back(&mut self, now_us: u64, id: RequestId) -> Option<GpuId> {
        let gpu = self.gpu_of(id)?;
        let waited = self.stop(now_us, gpu)?.waited;
        self.queue.push(waited.request, waited.overtaken);
        Some(gpu)
    }

    /// First time at which a waiting request cannot be in time any more even on an idle GPU that has
    /// its model, where the policy refuses such requests. [`reject`](Self::reject) may find one before.
    pub fn next_us(&self) -> Option<u64> {
        if !self.policy.rejects_late() {
            return None;
        }
        let latest = self.queue.iter().filter_map(|entry| {
            let deadline = entry.request.deadline_us?;
            Some(deadline.saturating_sub(self.pool.infer_us(&entry.request)))
        });
        Some(latest.min()?.saturating_add(1))
    }

    /// Estimated time until the GPUs have served all requests that they have and that wait, in
    /// microseconds; nothing if no GPU is available. Loads of waiting requests are not in it.
    pub fn backlog_us(&self, now_us: u64) -> Option<u64> {
        let available = |gpu: &&GpuState| gpu.available;
        let gpus = self.pool.gpus.iter().filter(available);
        let busy = gpus.map(|gpu| self.pool.busy_us(now_us, gpu));
        let (count, busy_us) = busy.fold((0_u64, 0_u64), |(count, sum), one| {
            (count + 1, sum.saturating_add(one))
        });
        let waiting = self
            .queue
            .iter()
            .map(|queue| self.pool.infer_us(&queue.request));
        let all_us = waiting.fold(busy_us, u64::saturating_add);
        all_us.checked_div(count)
    }

    /// Request that a GPU executes.
    pub fn running(&self, gpu: GpuId) -> Option<&GpuRequest> {
        let running = self.pool.gpu(gpu)?.running.as_ref()?;
        Some(&running.waited.request)
    }

    /// Estimated time of the earliest result of a waiting request, in microseconds: after the
    /// requests that GPUs execute, and with its load, but not after others that wait.
    pub fn soonest_us(&self, now_us: u64, request: &GpuRequest) -> u64 {
        let copies = self.policy.copies_between_gpus();
        let soonest = self.pool.soonest_us(now_us, request.model, copies);
        soonest.unwrap_or_else(|| now_us.saturating_add(self.pool.infer_us(request)))
    }
}
