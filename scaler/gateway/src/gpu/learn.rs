//! Facts that an executor's page tells: its GPU, its models, and the content of the memory.

use std::collections::BTreeSet;

use tetris_scaler_dispatch::gpu::{Gpu, GpuId, ModelId};

use super::state::{State, Unload};
use super::status::{GpuStatus, ModelStatus, Residency};

/// Bandwidth of a switch from the host while no executor has measured it, in bytes per second: PCIe
/// 3.0 with 16 lanes.
const UNMEASURED: u64 = 12_000_000_000;

/// Question for a page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question {
    /// True to ask for the parts of models.
    pub parts: bool,
    /// Number of the gateway's changes when it asked.
    changes: u64,
}

impl State {
    /// Question for the executor's next page, if the configuration still has it.
    pub(super) fn question(&self, gpu: GpuId) -> Option<Question> {
        let known = self.executors.get(gpu.0 as usize)?;
        known.listed.then_some(Question {
            parts: known.needs_parts,
            changes: known.changes,
        })
    }

    /// Takes a page. Returns orders for models that the record does not have.
    pub(super) fn learn(
        &mut self,
        now_us: u64,
        gpu: GpuId,
        question: Question,
        status: &GpuStatus,
    ) -> Vec<Unload> {
        self.learn_gpu(gpu, status);
        let served = self.learn_models(gpu, status);
        let Some(known) = self.executors.get(gpu.0 as usize) else {
            return Vec::new();
        };
        if known.needs_parts {
            known.executor.changed.notify_one();
        }
        let is_old = known.changes != question.changes || self.has_orders(gpu);
        if is_old || known.needs_parts || !known.listed || known.pause_until_us > now_us {
            return Vec::new();
        }
        if !self.scheduler.is_available(gpu) {
            let executor = known.executor.endpoint.address;
            tracing::info!(%executor, uuid = status.uuid, "executor takes requests");
            self.scheduler.restore_gpu(now_us, gpu);
        }
        let orders = self.learn_memory(now_us, gpu, &served);
        self.pump(now_us);
        orders
    }

    fn learn_gpu(&mut self, gpu: GpuId, status: &GpuStatus) {
        let node = self.place(format!("node {}", status.node));
        let switch = match &status.switch {
            Some(switch) => format!("switch {} {switch}", status.node),
            None => format!("gpu {}", status.uuid),
        };
        let switch = self.place(switch);
        let memory_bytes = status.capacity_bytes;
        self.scheduler.set_gpu(
            gpu,
            Gpu {
                memory_bytes,
                node,
                switch,
            },
        );
        if let Some(known) = self.executors.get_mut(gpu.0 as usize) {
            known.uuid = Some(status.uuid.clone());
            known.bytes_per_s = status.bytes_per_second.filter(|&speed| speed > 0);
            let links = status.links.iter();
            known.links = links
                .map(|link| (link.to.clone(), link.bytes_per_second))
                .collect();
        }
        // The slowest: a load takes at most as long as the policy expects.
        let measured = self.executors.iter().filter_map(|known| known.bytes_per_s);
        self.scheduler
            .set_host_bandwidth(measured.min().unwrap_or(UNMEASURED));
        self.learn_links();
    }

    fn learn_links(&mut self) {
        for known in &self.executors {
            let found: Vec<(GpuId, u64)> = known
                .links
                .iter()
                .filter_map(|(to, speed)| {
                    let mut all = self.executors.iter();
                    let other = all.find(|other| other.uuid.as_ref() == Some(to))?;
                    Some((other.executor.gpu, *speed))
                })
                .collect();
            self.scheduler.set_links(known.executor.gpu, &found);
        }
    }

    /// Number of a node or switch.
    fn place(&mut self, name: String) -> u32 {
        let next = u32::try_from(self.places.len()).unwrap_or(u32::MAX);
        *self.places.entry(name).or_insert(next)
    }

    /// Takes contents and parts. Returns the models of the pool that the executor serves.
    fn learn_models<'a>(
        &mut self,
        gpu: GpuId,
        status: &'a GpuStatus,
    ) -> Vec<(ModelId, &'a ModelStatus)> {
        let found = status.models.iter().filter_map(|model| {
            let id = self.models.find(&model.name)?;
            Some((id, model))
        });
        let served: Vec<(ModelId, &ModelStatus)> = found.collect();
        let mut needs_parts = false;
        for &(id, model) in &served {
            if !self.models.is_new(id, &model.model) {
                continue;
            }
            match &model.parts {
                Some(parts) => {
                    self.models
                        .learn(&mut self.scheduler, id, &model.model, parts);
                }
                None => needs_parts = true,
            }
        }
        if let Some(known) = self.executors.get_mut(gpu.0 as usize) {
            known.needs_parts = needs_parts;
        }
        let unserved: Vec<ModelId> = self
            .models
            .ids()
            .filter(|id| served.iter().all(|(other, _)| other != id))
            .collect();
        self.scheduler.set_unserved(gpu, unserved);
        served
    }

    /// Makes the record agree with the memory. Returns orders to unload models that the executor keeps
    /// and the record does not have.
    fn learn_memory(
        &mut self,
        now_us: u64,
        gpu: GpuId,
        served: &[(ModelId, &ModelStatus)],
    ) -> Vec<Unload> {
        let mut orders = Vec::new();
        let resident: Vec<ModelId> = served
            .iter()
            .filter(|(_, model)| model.state == Residency::Resident)
            .map(|&(id, _)| id)
            .collect();
        let running = self.scheduler.running(gpu).map(|request| request.model);
        if running.is_some_and(|model| resident.contains(&model))
            && let Some((origin, moved)) = self.scheduler.loaded(gpu)
            && let Some(origin) = self.executors.get(origin.0 as usize)
        {
            let name = self.models.name(moved).to_owned();
            orders.push((std::sync::Arc::clone(&origin.executor), name));
        }
        self.scheduler.observe_memory(now_us, gpu, &resident);
        let record: BTreeSet<ModelId> = self.scheduler.resident(gpu).collect();
        let Some(known) = self.executors.get(gpu.0 as usize) else {
            return orders;
        };
        for (id, model) in served {
            let kept = model.held && model.state != Residency::Absent;
            if kept && !record.contains(id) {
                orders.push((std::sync::Arc::clone(&known.executor), model.name.clone()));
            }
        }
        orders
    }
}
