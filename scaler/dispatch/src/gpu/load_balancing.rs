//! The oldest request, on the GPU that has been idle for longest.

use super::model::ModelId;
use super::policy::GpuPolicy;
use super::pool::Pool;
use super::queue::{GlobalQueue, Waiting};
use super::topology::GpuId;

/// First come, first served, regardless of which models are where. The least recently used model
/// is evicted. LB of GPU-FaaS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadBalancing;

impl GpuPolicy for LoadBalancing {
    fn next(
        &self,
        _now_us: u64,
        queue: &mut GlobalQueue,
        pool: &mut Pool,
    ) -> Option<(Waiting, GpuId)> {
        let model = queue.get(0)?.request.model;
        let idle = pool.idle().filter(|&(id, _)| pool.can_hold(id, model));
        let (gpu, _) = idle.min_by_key(|(id, gpu)| (gpu.idle_since_us, *id))?;
        Some((queue.take(0)?, gpu))
    }

    fn victims(&self, _queue: &GlobalQueue, pool: &Pool, gpu: GpuId) -> Vec<ModelId> {
        pool.evictable_by(gpu, |_, used_us| used_us)
    }
}
