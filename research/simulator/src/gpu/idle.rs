//! Limits of waiting requests and of idle models.

use std::collections::BTreeMap;

use tetris_scaler_dispatch::gpu::{GpuId, GpuScheduler, ModelId};

/// Limits of a run. By default requests wait, and models stay, without a limit.
#[derive(Clone, Debug, Default)]
pub(super) struct Limits {
    /// Time after which a waiting request leaves, in microseconds.
    pub timeout_us: Option<u64>,
    /// Keep-alive of each model, in microseconds: time for which it stays on a GPU without a request.
    pub keep_us: Option<Vec<u64>>,
    /// True if no other model takes the room of an idle one before that time.
    pub holds_idle: bool,
}

impl Limits {
    fn keep_us(&self, model: ModelId) -> Option<u64> {
        self.keep_us.as_ref()?.get(model.0 as usize).copied()
    }
}

/// Models on GPUs that have nothing to do, with the time since which.
#[derive(Debug, Default)]
pub(super) struct IdleModels(BTreeMap<(GpuId, ModelId), u64>);

impl IdleModels {
    /// Notes that a run of the model has ended. Returns the time to call [`expire`](Self::expire) at;
    /// nothing if the model is gone already, or stays.
    pub(super) fn start(
        &mut self,
        now_us: u64,
        scheduler: &mut GpuScheduler,
        limits: &Limits,
        gpu: GpuId,
        model: ModelId,
    ) -> Option<u64> {
        let keep_us = limits.keep_us(model)?;
        if keep_us == 0 {
            drop_model(now_us, scheduler, gpu, model);
            return None;
        }
        if limits.holds_idle {
            scheduler.hold_model(gpu, model);
        }
        self.0.insert((gpu, model), now_us);
        Some(now_us.saturating_add(keep_us))
    }

    /// Notes that the model runs.
    pub(super) fn stop(&mut self, gpu: GpuId, model: ModelId) {
        self.0.remove(&(gpu, model));
    }

    /// Drops the model, if it has been idle for its keep-alive.
    pub(super) fn expire(
        &mut self,
        now_us: u64,
        scheduler: &mut GpuScheduler,
        limits: &Limits,
        gpu: GpuId,
        model: ModelId,
    ) {
        let keep_us = limits.keep_us(model).unwrap_or(u64::MAX);
        let since_us = self.0.get(&(gpu, model));
        if since_us.is_some_and(|since| since.saturating_add(keep_us) <= now_us) {
            self.0.remove(&(gpu, model));
            drop_model(now_us, scheduler, gpu, model);
        }
    }
}

fn drop_model(now_us: u64, scheduler: &mut GpuScheduler, gpu: GpuId, model: ModelId) {
    let others: Vec<ModelId> = scheduler
        .resident(gpu)
        .filter(|&other| other != model)
        .collect();
    scheduler.observe_memory(now_us, gpu, &others);
}
