//! Torpor (5.2 to 5.4): order of functions, scheduling that avoids interference, eviction.
//!
//! **Readings.** A GPU "hosts" a model once it is loaded. A model on busy GPUs without a link to an
//! idle one comes from the host. "Any GPU" is the one that has been idle for longest. Within its
//! group a request's place follows its arrival.

use tetris_scaler_dispatch::gpu::{
    GlobalQueue, GpuId, GpuModel, GpuPolicy, GpuRequest, ModelId, Pool, Topology, Waiting,
    transfer_us,
};

/// Torpor, each part of which has a simpler form for comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TorporRules {
    /// True for requests by the required count of their functions, false for the order of arrival.
    pub by_required_count: bool,
    /// True for algorithm 1, false for any idle GPU and loads from the host alone.
    pub avoids_interference: bool,
    /// True for replicas and light models first, false for the least recently used model.
    pub evicts_light_first: bool,
    /// A model is light if its transfer from the host takes at most this part of its inference, in
    /// thousandths.
    pub light_permille: u64,
    /// True to refuse requests that cannot be in time on any GPU.
    pub rejects_late: bool,
}

impl Default for TorporRules {
    fn default() -> Self {
        Self {
            by_required_count: true,
            avoids_interference: true,
            evicts_light_first: true,
            light_permille: 1_000,
            rejects_late: false,
        }
    }
}

impl GpuPolicy for TorporRules {
    fn copies_between_gpus(&self) -> bool {
        self.avoids_interference
    }

    fn moves_when_full(&self) -> bool {
        self.evicts_light_first
    }

    fn rejects_late(&self) -> bool {
        self.rejects_late
    }

    fn next(
        &self,
        _now_us: u64,
        queue: &mut GlobalQueue,
        pool: &mut Pool,
    ) -> Option<(Waiting, GpuId)> {
        next(queue, pool, *self)
    }

    fn victims(&self, _queue: &GlobalQueue, pool: &Pool, gpu: GpuId) -> Vec<ModelId> {
        victims(pool, gpu, *self)
    }
}

fn next(queue: &mut GlobalQueue, pool: &Pool, rules: TorporRules) -> Option<(Waiting, GpuId)> {
    pool.idle().next()?;
    let mut order: Vec<(bool, usize)> = queue
        .iter()
        .map(|queue| rules.by_required_count && pool.is_low(queue.request.function))
        .enumerate()
        .map(|(at, low)| (low, at))
        .collect();
    order.sort_unstable();
    let placed = order.into_iter().find_map(|(_, at)| {
        let request = queue.get(at)?.request;
        place(pool, rules, &request).map(|gpu| (at, gpu))
    });
    let (at, gpu) = placed?;
    Some((queue.take(at)?, gpu))
}

/// Algorithm 1.
pub(crate) fn place(pool: &Pool, rules: TorporRules, request: &GpuRequest) -> Option<GpuId> {
    let model = request.model;
    let hit = pool.idle().find(|&(id, _)| pool.has(id, model));
    if let Some((gpu, _)) = hit {
        return Some(gpu);
    }
    let mut idle: Vec<(u64, GpuId)> = pool
        .idle()
        .filter(|&(id, _)| pool.can_hold(id, model))
        .map(|(id, gpu)| (gpu.idle_since_us, id))
        .collect();
    idle.sort_unstable();
    let mut gpus = idle.iter().map(|&(_, id)| id);
    if !rules.avoids_interference {
        let count = idle.len() as u64;
        return gpus.nth(mixed(request.id.0).checked_rem(count)? as usize);
    }
    let linked = gpus.clone().filter_map(|id| {
        let (_, _, speed) = pool.peer_source(id, model)?;
        Some((speed, std::cmp::Reverse(id)))
    });
    if let Some((_, std::cmp::Reverse(gpu))) = linked.max() {
        return Some(gpu);
    }
    let beside = |id: GpuId| {
        let mut loads = pool.topology.neighbors(id);
        let heaviest = loads.try_fold(0_u8, |most, other| {
            let Some(loading) = pool.loads_from_host(other) else {
                return Ok(most);
            };
            let light = is_light_model(pool, loading, rules);
            if light { Ok(1) } else { Err(2_u8) }
        });
        heaviest.unwrap_or_else(|heavy| heavy)
    };
    gpus.min_by_key(|&id| beside(id))
}

/// True if the inference hides the transfer from the host.
fn is_light(model: &GpuModel, topology: &Topology, permille: u64) -> bool {
    let transfer = transfer_us(model.bytes(), topology.host_bytes_per_s);
    transfer <= model.infer_us.saturating_mul(permille) / 1_000
}

/// Mixes the bits of a number (SplitMix64), for choices without a preference.
const fn mixed(number: u64) -> u64 {
    let mut bits = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits ^ (bits >> 27)
}

/// True if another GPU of the node has the model as well.
pub(crate) fn is_replica(pool: &Pool, gpu: GpuId, id: ModelId) -> bool {
    let node = |id| pool.topology.gpu(id).map(|gpu| gpu.node);
    pool.holders(id)
        .any(|(other, _)| other != gpu && node(other) == node(gpu))
}

/// True if the model is known, and light.
pub(crate) fn is_light_model(pool: &Pool, id: ModelId, rules: TorporRules) -> bool {
    pool.model(id)
        .is_some_and(|model| is_light(model, &pool.topology, rules.light_permille))
}

/// Section 5.4: replicas, then light models, then the least recently used.
fn victims(pool: &Pool, gpu: GpuId, rules: TorporRules) -> Vec<ModelId> {
    pool.evictable_by(gpu, |id, used_us| {
        if !rules.evicts_light_first {
            return (false, false, used_us);
        }
        let replica = is_replica(pool, gpu, id);
        let light = is_light_model(pool, id, rules);
        (!replica, !light, used_us)
    })
}
