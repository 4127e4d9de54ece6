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
            state.local.retain(|one| one.request.id != id);
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

    /// First time at which a waiting request cannot be in time any more, where the policy refuses
    /// such requests.
    pub fn next_us(&self) -> Option<u64> {
        if !self.policy.rejects_late() {
            return None;
        }
        let latest = self.queue.iter().filter_map(|one| {
            let deadline = one.request.deadline_us?;
            Some(deadline.saturating_sub(self.pool.infer_us(&one.request)))
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
            .map(|one| self.pool.infer_us(&one.request));
        let all_us = waiting.fold(busy_us, u64::saturating_add);
        all_us.checked_div(count)
    }

    /// Request that a GPU executes.
    pub fn running(&self, gpu: GpuId) -> Option<&GpuRequest> {
        let running = self.pool.gpu(gpu)?.running.as_ref()?;
        Some(&running.waited.request)
    }

    /// Shortest time from a dispatch to the result of the request, in microseconds.
    pub fn service_us(&self, request: &GpuRequest) -> u64 {
        self.pool.infer_us(request)
    }
}
