//! LALB and LALBO3 (GPU-FaaS IV, algorithms 1 and 2).
//!
//! **Readings.** The first loop of algorithm 1 ends at a hit; its `else` (line 17) follows a loop
//! that dispatched nothing to the GPU. Line 11 has "higher than the limit", the text "meets this
//! limit": it is at the limit here, so that a limit of 0 is LALB, as in V-E. A request is
//! *skipped* when a later one is dispatched, not at every look at it. The list of idle GPUs,
//! "sorted by frequency", begins with the GPU that was given the most requests. "The finish time" of
//! algorithm 2 includes the local queue.

use std::cmp::Reverse;

use tetris_scaler_dispatch::gpu::{
    GlobalQueue, GpuId, GpuPolicy, ModelId, Pool, Waiting, transfer_us,
};

/// LALB and LALBO3. With a limit of 0 it is LALB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalityAware {
    /// Number of times that a waiting request may be overtaken.
    pub overtaking_limit: u32,
}

/// LALB.
pub const LALB: LocalityAware = LocalityAware {
    overtaking_limit: 0,
};

/// LALBO3 with the limit of the paper.
pub const LALBO3: LocalityAware = LocalityAware {
    overtaking_limit: 25,
};

impl GpuPolicy for LocalityAware {
    fn next(
        &self,
        now_us: u64,
        queue: &mut GlobalQueue,
        pool: &mut Pool,
    ) -> Option<(Waiting, GpuId)> {
        next(now_us, queue, pool, self.overtaking_limit)
    }

    fn victims(&self, _queue: &GlobalQueue, pool: &Pool, gpu: GpuId) -> Vec<ModelId> {
        pool.evictable_by(gpu, |_, used_us| used_us)
    }
}

fn next(
    now_us: u64,
    queue: &mut GlobalQueue,
    pool: &mut Pool,
    limit: u32,
) -> Option<(Waiting, GpuId)> {
    let mut idle: Vec<(Reverse<u64>, GpuId)> = pool
        .idle()
        .map(|(id, gpu)| (Reverse(gpu.given), id))
        .collect();
    idle.sort();
    for &(_, gpu) in &idle {
        if let Some(waited) = pool.gpu_mut(gpu).and_then(|entry| entry.local.pop_front()) {
            return Some((waited, gpu));
        }
        if let Some(found) = hit_or_limit(now_us, queue, pool, gpu, limit) {
            return Some(found);
        }
        if let Some(found) = in_order(now_us, queue, pool, gpu) {
            return Some(found);
        }
    }
    None
}

/// Algorithm 1, lines 6 to 16: a hit, behind requests that may still be overtaken.
fn hit_or_limit(
    now_us: u64,
    queue: &mut GlobalQueue,
    pool: &mut Pool,
    gpu: GpuId,
    limit: u32,
) -> Option<(Waiting, GpuId)> {
    let mut at = 0;
    while let Some(&waiting) = queue.get(at) {
        if pool.has(gpu, waiting.request.model) {
            return Some((queue.take(at)?, gpu));
        }
        if waiting.overtaken < limit {
            at += 1;
            continue;
        }
        match place(now_us, pool, gpu, waiting.request.model) {
            Place::Run(found) => return Some((queue.take(at)?, found)),
            Place::Local(busy) => {
                move_to_local(queue, pool, at, busy)?;
                // Requests of a lost GPU stand before others that were overtaken more often.
                at = 0;
            }
            Place::Nowhere => return None,
        }
    }
    None
}

/// Algorithm 1, lines 17 to 21: no request hits, so the oldest goes first.
fn in_order(
    now_us: u64,
    queue: &mut GlobalQueue,
    pool: &mut Pool,
    gpu: GpuId,
) -> Option<(Waiting, GpuId)> {
    while let Some(&waiting) = queue.get(0) {
        match place(now_us, pool, gpu, waiting.request.model) {
            Place::Run(found) => return Some((queue.take(0)?, found)),
            Place::Local(busy) => move_to_local(queue, pool, 0, busy)?,
            Place::Nowhere => return None,
        }
    }
    None
}

fn move_to_local(queue: &mut GlobalQueue, pool: &mut Pool, at: usize, gpu: GpuId) -> Option<()> {
    let waited = queue.take(at)?;
    pool.gpu_mut(gpu)?.local.push_back(waited);
    Some(())
}

/// Destination of a request.
enum Place {
    Run(GpuId),
    /// The local queue of a busy GPU.
    Local(GpuId),
    /// The model does not fit beside a model that must stay.
    Nowhere,
}

/// Time to load the whole model from the host with nothing beside it, as profiled, in microseconds.
fn profiled_load_us(pool: &Pool, id: ModelId) -> u64 {
    pool.model(id).map_or(0, |model| {
        let transfer = transfer_us(model.bytes(), pool.topology.host_bytes_per_s);
        model.setup_us.saturating_add(transfer)
    })
}

/// Algorithm 2.
fn place(now_us: u64, pool: &Pool, gpu: GpuId, model: ModelId) -> Place {
    let idle = pool.holders(model).find(|(_, holder)| holder.is_idle());
    if let Some((other, _)) = idle {
        return Place::Run(other);
    }
    let load_us = profiled_load_us(pool, model);
    let busy = pool
        .holders(model)
        .find(|(_, holder)| pool.busy_us(now_us, holder) < load_us);
    if let Some((other, _)) = busy {
        return Place::Local(other);
    }
    if pool.can_hold(gpu, model) {
        Place::Run(gpu)
    } else {
        Place::Nowhere
    }
}
