//! Facts that an executor's page tells: its GPU, its models, and the content of the memory.

use std::collections::{BTreeSet, HashMap};

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
        // The page of an executor that has left the configuration meanwhile.
        if !self
            .executors
            .get(gpu.0 as usize)
            .is_some_and(|known| known.listed)
        {
            return Vec::new();
        }
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
        let node_name = format!("node {}", status.node);
        let switch_name = match &status.switch {
            Some(switch) => format!("switch {} {switch}", status.node),
            None => format!("gpu {}", status.uuid),
        };
        let node = self.places.number(&node_name);
        let switch = self.places.number(&switch_name);
        let memory_bytes = status.capacity_bytes;
        self.scheduler.set_gpu(
            gpu,
            Gpu {
                memory_bytes,
                node,
                switch,
            },
        );
        let places = [node_name, switch_name];
        if let Some(known) = self.executors.get_mut(gpu.0 as usize)
            && known.places != places
        {
            known.places = places;
            let executors = self.executors.iter();
            self.places.keep(executors.flat_map(|known| &known.places));
        }
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
        for (gpu, links) in self.links() {
            self.scheduler.set_links(gpu, &links);
        }
    }

    /// Links of each GPU to those of other executors.
    fn links(&self) -> Vec<(GpuId, Vec<(GpuId, u64)>)> {
        // Of two executors with one GPU, the first counts.
        let by_uuid = self.executors.iter().rev();
        let by_uuid: HashMap<&str, GpuId> = by_uuid
            .filter_map(|known| Some((known.uuid.as_deref()?, known.executor.gpu)))
            .collect();
        let of_each = self.executors.iter().map(|known| {
            let links = known.links.iter();
            let links = links.filter_map(|(to, speed)| Some((*by_uuid.get(&**to)?, *speed)));
            (known.executor.gpu, links.collect())
        });
        of_each.collect()
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tetris_scaler_dispatch::gpu::{GpuPolicy, SharingRules};

    use super::super::executor::ExecutorAddresses;
    use super::super::models::Times;
    use super::*;

    const EXECUTORS: usize = 4;

    fn pool() -> State {
        let policy = GpuPolicy::Sharing(SharingRules::default());
        let mut state = State::new(policy, 10);
        for port in 0..EXECUTORS {
            state.add(ExecutorAddresses {
                requests: ([127, 0, 0, 1], port as u16 + 1).into(),
                orders: None,
            });
        }
        let times = Times {
            infer_us: 1,
            after_load_us: 1,
        };
        let State {
            models, scheduler, ..
        } = &mut state;
        models.number(scheduler, "m", times);
        state
    }

    fn page(number: usize) -> Value {
        let parts: Vec<_> = (0..10)
            .map(|part| json!({"id": format!("{number}-{part}"), "bytes": 1}))
            .collect();
        json!({
            "uuid": format!("GPU-{number}"), "node": format!("node-{number}"), "switch": format!("s-{number}"),
            "capacity_bytes": 1_000, "bytes_per_second": 1_000,
            "links": [{"to": "GPU-0", "bytes_per_second": 1}],
            "models": [{"name": "m", "model": format!("c-{number}"), "state": "absent", "parts": parts}],
        })
    }

    fn learn(state: &mut State, gpu: usize, page: &Value) {
        let gpu = GpuId(gpu as u32);
        let question = Question {
            parts: true,
            changes: 0,
        };
        let status = GpuStatus::parse(page.to_string().as_bytes()).unwrap();
        state.learn(0, gpu, question, &status);
    }

    #[test]
    fn names_that_no_executor_tells_any_more_are_forgotten() {
        let mut state = pool();
        for number in 0..1_000 {
            learn(&mut state, number % EXECUTORS, &page(number));
        }
        // Two places of each executor, and the parts of one content.
        assert_eq!(state.places.count(), EXECUTORS * 2);
        assert_eq!(state.models.parts(), 10);
    }

    #[test]
    fn an_executor_that_leaves_is_forgotten_and_its_last_page_does_not_count() {
        let mut state = pool();
        learn(&mut state, 0, &page(0));
        learn(&mut state, 1, &page(1));
        state.executors[0].delist();
        learn(&mut state, 0, &page(2));
        let known = &state.executors[0];
        assert_eq!((&known.uuid, known.links.len()), (&None, 0));
        learn(&mut state, 1, &page(3));
        assert_eq!(state.places.count(), 2);
    }

    #[test]
    fn links_lead_to_the_first_executor_of_a_gpu() {
        let mut state = pool();
        for gpu in 0..EXECUTORS {
            let number = if gpu == 3 { 0 } else { gpu };
            learn(&mut state, gpu, &page(number));
        }
        let expected: Vec<_> = (0..EXECUTORS as u32)
            .map(|gpu| (GpuId(gpu), vec![(GpuId(0), 1)]))
            .collect();
        assert_eq!(state.links(), expected);
    }
}
