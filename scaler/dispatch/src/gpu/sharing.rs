//! Our policy: locality, shared parts, slack and bandwidth together.
//!
//! - **Cost.** A load costs the time of the bytes that are missing, over the link that is free: from
//!   a GPU that has them, or from the host's switch with its present users.
//! - **Urgency.** A request that must start now to be in time goes first, functions that can still meet
//!   their SLO before others. Else hits go first.
//! - **Waiting.** A request waits for a busy GPU that has its model if the result comes sooner, the
//!   requests before it counted. It is not bound to that GPU.
//! - **Eviction.** Models go by the time that their own bytes would take to load again, times the
//!   requests expected for them, per byte; replicas count for less, and models with waiting
//!   requests go last.
//! - **Overtaking** has a limit, as in LALBO3.

use std::collections::{BTreeMap, BTreeSet};

use super::model::ModelId;
use super::policy::GpuPolicy;
use super::pool::{Pool, Source};
use super::queue::{GlobalQueue, Waiting};
use super::request::GpuRequest;
use super::topology::{GpuId, transfer_us};

/// Our policy: shared parts are loaded once, and locality, slack and bandwidth decide together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharingRules {
    /// Number of times that a waiting request may be overtaken.
    pub overtaking_limit: u32,
    /// Slack below which a request is urgent, in thousandths of its time of service.
    pub urgent_permille: u64,
    /// True to refuse requests that cannot be in time on any GPU.
    pub rejects_late: bool,
}

impl Default for SharingRules {
    fn default() -> Self {
        Self {
            overtaking_limit: 100,
            urgent_permille: 500,
            rejects_late: true,
        }
    }
}

impl GpuPolicy for SharingRules {
    fn shares(&self) -> bool {
        true
    }

    fn copies_between_gpus(&self) -> bool {
        true
    }

    fn rejects_late(&self) -> bool {
        self.rejects_late
    }

    fn next(
        &self,
        now_us: u64,
        queue: &mut GlobalQueue,
        pool: &mut Pool,
    ) -> Option<(Waiting, GpuId)> {
        next(now_us, queue, pool, *self)
    }

    fn victims(&self, queue: &GlobalQueue, pool: &Pool, gpu: GpuId) -> Vec<ModelId> {
        ranked(pool, &wanted(queue), gpu)
            .into_iter()
            .map(|(_, _, id)| id)
            .collect()
    }
}

/// An idle GPU for a request.
#[derive(Clone, Copy)]
struct Offer {
    gpu: GpuId,
    service_us: u64,
    hit: bool,
    evicts: bool,
}

fn next(
    now_us: u64,
    queue: &mut GlobalQueue,
    pool: &Pool,
    rules: SharingRules,
) -> Option<(Waiting, GpuId)> {
    pool.idle().next()?;
    let wanted = wanted(queue);
    let first = queue
        .iter()
        .position(|entry| entry.overtaken >= rules.overtaking_limit);
    if let Some(at) = first {
        let offer = offer(pool, &wanted, &queue.get(at)?.request)?;
        return Some((queue.take(at)?, offer.gpu));
    }
    let mut order: Vec<((bool, u64), usize)> = queue
        .iter()
        .map(|queue| {
            let request = &queue.request;
            let low = pool.is_low(request.function);
            (low, request.deadline_us.unwrap_or(u64::MAX))
        })
        .enumerate()
        .map(|(at, key)| (key, at))
        .collect();
    order.sort_unstable();
    let mut ahead: BTreeMap<ModelId, u64> = BTreeMap::new();
    let mut offers: BTreeMap<ModelId, Option<Offer>> = BTreeMap::new();
    let mut hit: Option<(usize, GpuId)> = None;
    let mut miss: Option<(usize, GpuId)> = None;
    for (_, at) in order {
        let request = queue.get(at)?.request;
        let offer_of_model = offers
            .entry(request.model)
            .or_insert_with(|| offer(pool, &wanted, &request));
        let Some(found) = *offer_of_model else {
            continue;
        };
        let before = ahead.entry(request.model).or_default();
        let waits = !found.hit && waits(now_us, pool, &request, found, *before);
        *before += 1;
        let slack_us = request.deadline_us.map(|deadline| {
            let done = now_us.saturating_add(found.service_us);
            i128::from(deadline) - i128::from(done)
        });
        let urgent_us = i128::from(found.service_us) * i128::from(rules.urgent_permille) / 1_000;
        if !waits && slack_us.is_some_and(|slack| slack >= 0 && slack <= urgent_us) {
            return Some((queue.take(at)?, found.gpu));
        }
        if found.hit {
            hit = hit.or(Some((at, found.gpu)));
        } else if !waits {
            miss = miss.or(Some((at, found.gpu)));
        }
    }
    let (at, gpu) = hit.or(miss)?;
    Some((queue.take(at)?, gpu))
}

/// Models of waiting requests.
fn wanted(queue: &GlobalQueue) -> BTreeSet<ModelId> {
    queue.iter().map(|queue| queue.request.model).collect()
}

/// The idle GPU on which the result comes soonest, the loss by evictions added.
fn offer(pool: &Pool, wanted: &BTreeSet<ModelId>, request: &GpuRequest) -> Option<Offer> {
    let id = request.model;
    let model = pool.model(id)?;
    let offers = pool.idle().filter(|&(gpu, _)| pool.can_hold(gpu, id));
    let offers = offers.map(|(gpu, state)| {
        if pool.has(gpu, id) {
            let offer = Offer {
                gpu,
                service_us: model.infer_us,
                hit: true,
                evicts: false,
            };
            return (0, model.infer_us, state.idle_since_us, offer);
        }
        let bytes = state.memory.missing_bytes(id, model);
        let (_, speed) = source(pool, gpu, id);
        let service_us = model.service_us(transfer_us(bytes, speed));
        let evicts = !state.memory.has_room(bytes);
        let loss_us = if evicts {
            loss_us(pool, wanted, gpu, bytes)
        } else {
            0
        };
        let offer = Offer {
            gpu,
            service_us,
            hit: false,
            evicts,
        };
        (
            1,
            service_us.saturating_add(loss_us),
            state.idle_since_us,
            offer,
        )
    });
    let best = offers.min_by_key(|&(miss, cost, since, offer)| (miss, cost, since, offer.gpu));
    best.map(|(.., offer)| offer)
}

/// Origin of a load, and the bandwidth that it would have now.
fn source(pool: &Pool, gpu: GpuId, id: ModelId) -> (Source, u64) {
    if let Some((from, _, speed)) = pool.peer_source(gpu, id) {
        return (Source::Gpu(from), speed);
    }
    let neighbors = pool.topology.neighbors(gpu);
    let busy = neighbors.filter(|&other| pool.loads_from_host(other).is_some());
    let users = busy.count() as u64 + 1;
    (Source::Host, pool.topology.host_bytes_per_s / users)
}

/// True if the request is better off behind a busy GPU that has its model.
fn waits(now_us: u64, pool: &Pool, request: &GpuRequest, offer: Offer, before: u64) -> bool {
    let infer_us = pool.infer_us(request);
    let busy = || {
        let holders = pool.holders(request.model);
        holders.filter(|(_, gpu)| !gpu.is_idle())
    };
    let Some(free_us) = busy().map(|(_, gpu)| pool.busy_us(now_us, gpu)).min() else {
        return false;
    };
    let count = busy().count().max(1) as u64;
    let wait_us = free_us
        .saturating_add(before.saturating_mul(infer_us) / count)
        .saturating_add(infer_us);
    let late = request
        .deadline_us
        .is_some_and(|deadline| now_us.saturating_add(wait_us) > deadline);
    // An eviction takes time from others as well.
    let extra_us = offer.service_us.saturating_sub(infer_us);
    let extra_us = if offer.evicts { extra_us } else { 0 };
    !late && wait_us <= offer.service_us.saturating_add(extra_us)
}

/// Evictable models: by whether a request waits for it, then value per megabyte.
fn ranked(pool: &Pool, wanted: &BTreeSet<ModelId>, gpu: GpuId) -> Vec<(bool, u64, ModelId)> {
    let Some(state) = pool.gpu(gpu) else {
        return Vec::new();
    };
    let evictable = state
        .memory
        .models()
        .filter(|(_, model)| !model.is_pinned());
    let mut ranked: Vec<(bool, u64, ModelId)> = evictable
        .map(|(id, _)| {
            let megabytes = state.memory.freed_by(id) / 1_000_000;
            let value = value_us(pool, gpu, id) / megabytes.max(1);
            (wanted.contains(&id), value, id)
        })
        .collect();
    ranked.sort_unstable();
    ranked
}

/// Time that the absence of the model is expected to cost, in microseconds.
fn value_us(pool: &Pool, gpu: GpuId, id: ModelId) -> u64 {
    let (Some(state), Some(model)) = (pool.gpu(gpu), pool.model(id)) else {
        return 0;
    };
    let horizon = pool.gpus.len() as u64 * 8;
    let expected = pool.popularity.expected_milli(id.0 as usize, horizon);
    let transfer = transfer_us(state.memory.freed_by(id), pool.topology.host_bytes_per_s);
    let extra_us = model.service_us(transfer).saturating_sub(model.infer_us);
    let link_us = extra_us.saturating_add(transfer / 4);
    let replicas = pool.holders(id).count().max(1) as u64;
    link_us.saturating_mul(expected) / 1_000 / (replicas * replicas)
}

fn loss_us(pool: &Pool, wanted: &BTreeSet<ModelId>, gpu: GpuId, bytes: u64) -> u64 {
    let Some(state) = pool.gpu(gpu) else {
        return 0;
    };
    let mut room = 0_u64;
    let mut loss = 0_u64;
    for (_, _, id) in ranked(pool, wanted, gpu) {
        if state.memory.has_room(bytes.saturating_sub(room)) {
            break;
        }
        room = room.saturating_add(state.memory.freed_by(id));
        loss = loss.saturating_add(value_us(pool, gpu, id));
    }
    loss
}
