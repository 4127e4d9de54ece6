//! The seam between a scheduler and the policy that decides for it.

use std::fmt::Debug;

use super::model::ModelId;
use super::pool::Pool;
use super::queue::{GlobalQueue, Waiting};
use super::topology::GpuId;

/// Policy of a scheduler: the next request, its GPU, and models to evict for it. The policies of this
/// crate have no state: everything they may know is in the queue and the pool.
pub trait GpuPolicy: Debug + Send + Sync {
    /// True if models of equal content have one copy in a GPU's memory.
    fn shares(&self) -> bool {
        false
    }

    /// True if models are copied from one GPU to another.
    fn copies_between_gpus(&self) -> bool {
        false
    }

    /// True if a copy from another GPU leaves no replica behind where memory is full.
    fn moves_when_full(&self) -> bool {
        false
    }

    /// True if requests that cannot be in time are refused.
    fn rejects_late(&self) -> bool {
        false
    }

    /// Takes the next request to execute from the queue, and chooses an idle GPU for it.
    fn next(
        &self,
        now_us: u64,
        queue: &mut GlobalQueue,
        pool: &mut Pool,
    ) -> Option<(Waiting, GpuId)>;

    /// Evictable models of the GPU, in the order in which they go.
    fn victims(&self, queue: &GlobalQueue, pool: &Pool, gpu: GpuId) -> Vec<ModelId>;
}
