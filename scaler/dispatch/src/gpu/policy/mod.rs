//! Policies: the next request, its GPU, and models to evict for it.

pub(crate) mod load_balancing;
pub(crate) mod locality;
pub(crate) mod sharing;
pub(crate) mod torpor;

use super::model::ModelId;
use super::pool::Pool;
use super::queue::GlobalQueue;
use super::request::Waiting;
use super::topology::GpuId;

pub use sharing::SharingRules;
pub use torpor::TorporRules;

/// Policy of a scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GpuPolicy {
    /// LB of GPU-FaaS: the oldest request goes to the GPU that has been idle for longest.
    LoadBalancing,
    /// LALB and LALBO3 of GPU-FaaS (IV, algorithms 1 and 2). With a limit of 0 it is LALB.
    LocalityAware {
        /// Number of times that a waiting request may be overtaken.
        overtaking_limit: u32,
    },
    /// Torpor (5.2 to 5.4), or with simpler parts.
    Torpor(TorporRules),
    /// Our own: shared parts are loaded once, and locality, slack and bandwidth decide together.
    Sharing(SharingRules),
}

impl GpuPolicy {
    /// Limit of overtaking of LALBO3, as in the paper.
    pub const LALBO3_LIMIT: u32 = 25;
    /// LALBO3 with the limit of the paper.
    pub const LALBO3: Self = Self::LocalityAware {
        overtaking_limit: Self::LALBO3_LIMIT,
    };
    /// LALB.
    pub const LALB: Self = Self::LocalityAware {
        overtaking_limit: 0,
    };

    /// True if models of equal content have one copy in a GPU's memory.
    pub(crate) const fn shares(&self) -> bool {
        match self {
            Self::Sharing(_) => true,
            Self::LoadBalancing | Self::LocalityAware { .. } | Self::Torpor(_) => false,
        }
    }

    /// True if models are copied from one GPU to another.
    pub(crate) const fn copies_between_gpus(&self) -> bool {
        match self {
            Self::Sharing(_) => true,
            Self::Torpor(rules) => rules.avoids_interference,
            Self::LoadBalancing | Self::LocalityAware { .. } => false,
        }
    }

    /// True if a copy from another GPU leaves no replica behind where memory is full.
    pub(crate) const fn moves_when_full(&self) -> bool {
        matches!(self, Self::Torpor(rules) if rules.evicts_light_first)
    }

    /// True if requests that cannot be in time are refused.
    pub(crate) const fn rejects_late(&self) -> bool {
        match self {
            Self::Torpor(rules) => rules.rejects_late,
            Self::Sharing(rules) => rules.rejects_late,
            Self::LoadBalancing | Self::LocalityAware { .. } => false,
        }
    }

    /// Takes the next request to execute, and its GPU.
    pub(crate) fn next(
        &self,
        now_us: u64,
        queue: &mut GlobalQueue,
        pool: &mut Pool,
    ) -> Option<(Waiting, GpuId)> {
        match self {
            Self::LoadBalancing => load_balancing::next(queue, pool),
            Self::LocalityAware { overtaking_limit } => {
                locality::next(now_us, queue, pool, *overtaking_limit)
            }
            Self::Torpor(rules) => torpor::next(queue, pool, *rules),
            Self::Sharing(rules) => sharing::next(now_us, queue, pool, *rules),
        }
    }

    /// Models of the GPU that may go, in the order in which they go.
    pub(crate) fn victims(&self, queue: &GlobalQueue, pool: &Pool, gpu: GpuId) -> Vec<ModelId> {
        match self {
            Self::LoadBalancing | Self::LocalityAware { .. } => {
                evictable_by(pool, gpu, |_, used_us| used_us)
            }
            Self::Torpor(rules) => torpor::victims(pool, gpu, *rules),
            Self::Sharing(_) => sharing::victims(queue, pool, gpu),
        }
    }
}

/// Models of the GPU that may go, by `key` of the model and its last use.
pub(crate) fn evictable_by<K: Ord>(
    pool: &Pool,
    gpu: GpuId,
    key: impl Fn(ModelId, u64) -> K,
) -> Vec<ModelId> {
    let Some(state) = pool.gpu(gpu) else {
        return Vec::new();
    };
    let resident = state.memory.models();
    let mut found: Vec<(K, ModelId)> = resident
        .filter(|(_, one)| !one.is_pinned())
        .map(|(id, one)| (key(id, one.used_us), id))
        .collect();
    found.sort();
    found.into_iter().map(|(_, id)| id).collect()
}
