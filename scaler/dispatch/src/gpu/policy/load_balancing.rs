//! LB: the oldest request, wherever a GPU is idle.

use crate::gpu::pool::Pool;
use crate::gpu::queue::GlobalQueue;
use crate::gpu::request::Waiting;
use crate::gpu::topology::GpuId;

pub(crate) fn next(queue: &mut GlobalQueue, pool: &Pool) -> Option<(Waiting, GpuId)> {
    let model = queue.get(0)?.request.model;
    let idle = pool.idle().filter(|&(id, _)| pool.can_hold(id, model));
    let (gpu, _) = idle.min_by_key(|(id, gpu)| (gpu.idle_since_us, *id))?;
    Some((queue.take(0)?, gpu))
}
