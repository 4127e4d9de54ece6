//! Facts in an executor's page: its GPU, its models, and the content of the memory.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use tetris_scaler_dispatch::gpu::{Gpu, GpuId, ModelId};

use super::contents::{Contents, PartNumbers};
use super::device::Device;
use super::executor::Executor;
use super::limits::PARTS;
use super::models::Told;
use super::page_error::PageError;
use super::state::{State, Unload};
use super::status::{GpuStatus, ModelStatus, Residency, shown};

/// Bandwidth of a switch from the host while no executor has measured it, in bytes per second: PCIe
/// 3.0 with 16 lanes.
const UNMEASURED: u64 = 12_000_000_000;

/// Devices differ by at most this factor from a typical one of their pool. One executor that reports less would otherwise have
/// requests refused that the others could answer in time.
const PLAUSIBLE: u64 = 4;

/// Bandwidth that is expected of the host, in bytes per second, by what devices have measured.
fn expected_bandwidth(mut measured: Vec<u64>) -> u64 {
    measured.sort_unstable();
    let typical = measured.get(measured.len() / 2).copied();
    let slowest = measured.first().copied();
    let least = typical.map(|typical| typical / PLAUSIBLE);
    slowest.max(least).unwrap_or(UNMEASURED)
}

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
    pub(super) fn question(&self, executor: &Arc<Executor>) -> Option<Question> {
        let known = self.executors.get(&executor.gpu)?;
        self.has(executor).then_some(Question {
            parts: known.needs_parts,
            changes: known.changes,
        })
    }

    /// Models of the pool whose content is new, and the numbers of parts for reading them.
    pub(super) fn new_models<'a, 'b>(
        &self,
        status: &'b GpuStatus<'a>,
    ) -> (Vec<(ModelId, &'b ModelStatus<'a>)>, PartNumbers) {
        let mut served = self.served(status);
        served.retain(|&id, model| self.models.is_new(id, &model.model));
        (served.into_iter().collect(), self.part_numbers.clone())
    }

    /// Models of the pool that an executor serves.
    fn served<'a, 'b>(&self, status: &'b GpuStatus<'a>) -> BTreeMap<ModelId, &'b ModelStatus<'a>> {
        let served = status.models.iter().filter_map(|model| {
            let id = self.models.find(&model.name)?;
            Some((id, model))
        });
        served.collect()
    }

    /// Takes a page, with the contents that are new. Returns orders for models that the record does not have.
    ///
    /// # Errors
    ///
    /// The limit that the page exceeds.
    pub(super) fn learn(
        &mut self,
        now_us: u64,
        gpu: GpuId,
        question: Question,
        status: &GpuStatus<'_>,
        contents: Contents,
    ) -> Result<Vec<Unload>, PageError> {
        self.learn_gpu(gpu, status);
        let served = self.served(status);
        self.learn_models(gpu, &served, contents)?;
        let Some(known) = self.executors.get(&gpu) else {
            return Ok(Vec::new());
        };
        if known.needs_parts {
            known.executor.changed.notify_one();
        }
        let is_old = known.changes != question.changes || self.has_orders(gpu);
        if is_old || known.needs_parts || !known.listed || known.pause_until_us > now_us {
            return Ok(Vec::new());
        }
        if !self.scheduler.is_available(gpu) {
            let executor = known.executor.endpoint.address;
            tracing::info!(%executor, uuid = shown(&status.uuid), "executor takes requests");
            self.scheduler.restore_gpu(now_us, gpu);
        }
        if let Some(known) = self.executors.get_mut(&gpu) {
            known.is_unusable = false;
        }
        let orders = self.learn_memory(now_us, gpu, &served);
        // Of contents that have changed since, the record has the parts that it had.
        let recorded = self.scheduler.recorded_parts(gpu);
        if recorded > PARTS {
            return Err(PageError::ResidentParts(recorded));
        }
        self.pump(now_us);
        Ok(orders)
    }

    fn learn_gpu(&mut self, gpu: GpuId, status: &GpuStatus<'_>) {
        let places = [
            format!("node {}", &*status.node),
            match &status.switch {
                Some(switch) => format!("switch {} {}", &*status.node, &**switch),
                None => format!("gpu {}", &*status.uuid),
            },
        ];
        let [node, switch] = places.each_ref().map(|name| self.places.take(name));
        let memory_bytes = status.capacity_bytes;
        self.scheduler.set_gpu(
            gpu,
            Gpu {
                memory_bytes,
                node,
                switch,
            },
        );
        let links = status.links.iter();
        let device = Device {
            uuid: (*status.uuid).into(),
            places,
            bytes_per_s: status.bytes_per_second.filter(|&speed| speed > 0),
            links: links
                .map(|link| ((*link.to).into(), link.bytes_per_second))
                .collect(),
        };
        let Some(known) = self.executors.get_mut(&gpu) else {
            return;
        };
        let before = known.device.replace(device);
        self.release(before.as_ref());
        self.learn_bandwidth();
        match before {
            Some(before) if before.uuid == (*status.uuid).into() => {
                if !before.has_links(&status.links) {
                    self.learn_links(Some(gpu));
                }
            }
            _ => self.learn_links(None),
        }
    }

    /// Forgets the names of places that a device had.
    fn release(&mut self, device: Option<&Device>) {
        for name in device.iter().flat_map(|device| &device.places) {
            self.places.release(name);
        }
    }

    /// Expects loads to take as long as those of the slowest device that is plausible beside the others.
    fn learn_bandwidth(&mut self) {
        let devices = self.executors.values();
        let devices = devices.filter_map(|known| known.device.as_ref());
        let measured = devices.filter_map(|device| device.bytes_per_s).collect();
        self.scheduler
            .set_host_bandwidth(expected_bandwidth(measured));
    }

    /// Takes the links from one GPU, or those of all if the identity of one has changed.
    fn learn_links(&mut self, from: Option<GpuId>) {
        let mut gpus: HashMap<&str, GpuId> = HashMap::new();
        for (&gpu, known) in &self.executors {
            if let Some(device) = &known.device {
                gpus.entry(&device.uuid).or_insert(gpu);
            }
        }
        for (&gpu, known) in &self.executors {
            if from.is_some_and(|from| from != gpu) {
                continue;
            }
            let links = known.device.iter().flat_map(|device| &device.links);
            let speeds: Vec<(GpuId, u64)> = links
                .filter_map(|(to, speed)| Some((*gpus.get(&**to)?, *speed)))
                .collect();
            self.scheduler.set_links(gpu, &speeds);
        }
    }

    /// Forgets all that an executor has reported.
    pub(super) fn forget(&mut self, gpu: GpuId) {
        let Some(known) = self.executors.get_mut(&gpu) else {
            return;
        };
        known.needs_parts = true;
        let device = known.device.take();
        self.release(device.as_ref());
        for id in self.models.ids() {
            self.models.untell(&mut self.scheduler, id, gpu);
        }
        if device.is_some() {
            self.learn_bandwidth();
            self.learn_links(None);
        }
    }

    /// Takes contents and parts.
    fn learn_models(
        &mut self,
        gpu: GpuId,
        served: &BTreeMap<ModelId, &ModelStatus<'_>>,
        mut contents: Contents,
    ) -> Result<(), PageError> {
        let mut needs_parts = false;
        let mut unserved = Vec::new();
        for id in self.models.ids() {
            let Some(model) = served.get(&id) else {
                unserved.push(id);
                self.models.untell(&mut self.scheduler, id, gpu);
                continue;
            };
            match (
                self.models.tell(id, gpu, &model.model),
                contents.remove(&id),
            ) {
                (Told::Known, _) => {}
                (Told::Other, _) => unserved.push(id),
                (Told::New, None) => needs_parts = true,
                (Told::New, Some(parts)) => {
                    let scheduler = &mut self.scheduler;
                    self.models
                        .learn(scheduler, (id, gpu), &model.model, parts)?;
                }
            }
        }
        if let Some(known) = self.executors.get_mut(&gpu) {
            known.needs_parts = needs_parts;
        }
        self.scheduler.set_unserved(gpu, unserved);
        Ok(())
    }

    /// Makes the record agree with the memory. Returns orders to unload models that the executor keeps
    /// and the record does not have.
    fn learn_memory(
        &mut self,
        now_us: u64,
        gpu: GpuId,
        served: &BTreeMap<ModelId, &ModelStatus<'_>>,
    ) -> Vec<Unload> {
        let mut orders = Vec::new();
        let resident: Vec<ModelId> = served
            .iter()
            .filter(|(_, model)| model.state == Residency::Resident)
            .map(|(&id, _)| id)
            .collect();
        let running = self.scheduler.running(gpu).map(|request| request.model);
        if running.is_some_and(|model| resident.contains(&model))
            && let Some((origin, moved)) = self.scheduler.loaded(gpu)
            && let Some(origin) = self.executors.get(&origin)
        {
            let name = self.models.name(moved).to_owned();
            orders.push((Arc::clone(&origin.executor), name));
        }
        self.scheduler.observe_memory(now_us, gpu, &resident);
        let record: BTreeSet<ModelId> = self.scheduler.resident(gpu).collect();
        let Some(known) = self.executors.get(&gpu) else {
            return orders;
        };
        for (id, model) in served {
            let kept = model.held && model.state != Residency::Absent;
            if kept && !record.contains(id) {
                orders.push((Arc::clone(&known.executor), model.name.to_string()));
            }
        }
        orders
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use std::sync::Arc;
    use tetris_scaler_dispatch::Outcome;

    use tetris_scaler_dispatch::gpu::LoadBalancing;

    use super::super::executor::ExecutorAddresses;
    use super::super::limits::PARTS_OF_MODEL;
    use super::super::models::Times;
    use super::*;

    fn state(models: &[&str]) -> State {
        let mut state = State::new(Arc::new(LoadBalancing), 10);
        for model in models {
            let times = Times {
                infer_us: 1,
                after_load_us: 1,
            };
            let State {
                models, scheduler, ..
            } = &mut state;
            models.number(scheduler, model, times);
        }
        state
    }

    fn add(state: &mut State, port: u16) -> Arc<Executor> {
        state.add(ExecutorAddresses {
            requests: ([127, 0, 0, 1], port).into(),
            orders: None,
        })
    }

    fn tell(state: &mut State, executor: &Arc<Executor>, page: &str) -> Result<(), PageError> {
        let status = GpuStatus::parse(page.as_bytes())?;
        let question = state.question(executor).unwrap();
        let (new, numbers) = state.new_models(&status);
        let contents = numbers.read(&new)?;
        state
            .learn(0, executor.gpu, question, &status, contents)
            .map(drop)
    }

    fn page(names: &str, models: &str) -> String {
        format!(
            r#"{{"uuid": "{names}", "node": "node {names}", "switch": "{names}", "capacity_bytes": 1000000000,
            "links": [{{"to": "other {names}", "bytes_per_second": 1}}], "models": [{models}]}}"#
        )
    }

    fn model(name: &str, content: &str, parts: usize) -> String {
        let mut text = String::new();
        for part in 0..parts {
            let comma = if part > 0 { "," } else { "" };
            write!(text, r#"{comma}{{"id": "{content} {part}", "bytes": 1}}"#).unwrap();
        }
        format!(
            r#"{{"name": "{name}", "model": "{content}", "state": "resident", "parts": [{text}]}}"#
        )
    }

    fn knows(state: &State, name: &str, content: &str) -> bool {
        let id = state.models.find(name).unwrap();
        let is_known = !state.models.is_new(id, content);
        let parts = &state.scheduler.model(id).unwrap().parts;
        assert_eq!(is_known, !parts.is_empty());
        is_known
    }

    #[test]
    fn an_executor_that_leaves_is_forgotten_with_all_that_it_told() {
        let mut state = state(&["a"]);
        for round in 0..100 {
            let executor = add(&mut state, round + 1);
            let names = round.to_string();
            tell(&mut state, &executor, &page(&names, &model("a", &names, 3))).unwrap();
            assert!(knows(&state, "a", &names));
            assert_eq!((executor.gpu, state.available()), (GpuId(0), 1));
            state.leave(executor.gpu);
            state.pump(0);
            assert!(state.executors.is_empty() && state.places.is_empty());
            assert!(!knows(&state, "a", &names) && state.question(&executor).is_none());
        }
    }

    #[test]
    fn an_executor_that_leaves_with_a_request_is_forgotten_after_it() {
        let mut state = state(&["a"]);
        let executor = add(&mut state, 1);
        tell(&mut state, &executor, &page("x", &model("a", "c", 1))).unwrap();
        let id = state.models.find("a").unwrap();
        let (request, _answer) = state.offer(0, (1, id), 1_000_000).unwrap();
        state.leave(executor.gpu);
        let next = add(&mut state, 1);
        assert_ne!(executor.gpu, next.gpu);
        assert!(!state.has(&executor) && state.has(&next));
        state.complete(0, request, Outcome::Served);
        assert_eq!(state.executors.len(), 1);
        assert_eq!(add(&mut state, 2).gpu, executor.gpu);
    }

    #[test]
    fn a_content_is_known_while_an_executor_tells_it() {
        let mut state = state(&["a"]);
        let executors = [add(&mut state, 1), add(&mut state, 2)];
        for executor in &executors {
            tell(&mut state, executor, &page("x", &model("a", "c", 2))).unwrap();
        }
        tell(&mut state, &executors[0], &page("x", "")).unwrap();
        assert!(knows(&state, "a", "c"));
        state.refuse(0, executors[1].gpu, "too large");
        assert!(!knows(&state, "a", "c"));
        assert_eq!(state.totals.refused_pages, 1);
    }

    #[test]
    fn a_single_executor_does_not_change_what_the_others_have() {
        let mut state = state(&["a"]);
        let executors = [1, 2, 3].map(|port| add(&mut state, port));
        let content = |content: &str| page("x", &model("a", content, 2));
        for executor in &executors {
            tell(&mut state, executor, &content("c")).unwrap();
        }
        let id = state.models.find("a").unwrap();
        let serving = |state: &State| -> Vec<bool> {
            let gpus = executors.iter().map(|executor| executor.gpu);
            gpus.map(|gpu| state.scheduler.serves(gpu, id)).collect()
        };
        // It reports another content on every page, and is asked for no parts.
        for round in 0..50 {
            tell(
                &mut state,
                &executors[2],
                &content(&format!("other {round}")),
            )
            .unwrap();
            assert!(knows(&state, "a", "c"));
            assert!(!state.question(&executors[2]).unwrap().parts);
            assert_eq!(serving(&state), [true, true, false]);
        }
        // In a rollout the others follow, and the content changes with the second of three.
        tell(&mut state, &executors[2], &content("d")).unwrap();
        tell(&mut state, &executors[0], &content("d")).unwrap();
        assert!(knows(&state, "a", "d"));
        tell(&mut state, &executors[1], &content("c")).unwrap();
        tell(&mut state, &executors[2], &content("d")).unwrap();
        assert_eq!(serving(&state), [true, false, true]);
        tell(&mut state, &executors[1], &content("d")).unwrap();
        assert_eq!(serving(&state), [true, true, true]);
        // Of two that disagree, the first has it.
        state.leave(executors[0].gpu);
        tell(&mut state, &executors[1], &content("e")).unwrap();
        assert!(knows(&state, "a", "d"));
        state.leave(executors[2].gpu);
        tell(&mut state, &executors[1], &content("e")).unwrap();
        assert!(knows(&state, "a", "e"));
    }

    #[test]
    fn a_page_of_too_many_parts_is_refused() {
        let models: Vec<String> = (0..9).map(|number| format!("m{number}")).collect();
        let names: Vec<&str> = models.iter().map(String::as_str).collect();
        let mut state = state(&names);
        let executor = add(&mut state, 1);
        let whole = |count: usize, content: &str, parts: usize| -> Vec<String> {
            let named = names.iter().take(count);
            named.map(|name| model(name, content, parts)).collect()
        };
        let all = page("x", &whole(9, "c", PARTS_OF_MODEL).join(","));
        let error = tell(&mut state, &executor, &all).unwrap_err();
        assert!(
            error.to_string().contains("more parts than 131072"),
            "{error}"
        );
        let eight = whole(8, "c", PARTS_OF_MODEL);
        tell(&mut state, &executor, &page("x", &eight.join(","))).unwrap();
        // The record keeps the parts of contents that are replaced.
        let mut replaced = whole(8, "d", 1);
        replaced.push(model("m8", "d", PARTS_OF_MODEL));
        let error = tell(&mut state, &executor, &page("x", &replaced.join(","))).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("have 147456 parts, expected 131072"),
            "{error}"
        );
    }

    const GB: u64 = 1_000_000_000;

    #[test]
    fn the_slowest_device_counts_unless_it_is_implausible() {
        assert_eq!(expected_bandwidth(Vec::new()), UNMEASURED);
        assert_eq!(expected_bandwidth(vec![50 * GB]), 50 * GB);
        assert_eq!(expected_bandwidth(vec![50 * GB, 20 * GB, 55 * GB]), 20 * GB);
        // One that reports a byte per second holds nothing up.
        assert_eq!(expected_bandwidth(vec![1, 50 * GB]), 50 * GB / 4);
        assert_eq!(expected_bandwidth(vec![52 * GB, 1, 50 * GB]), 50 * GB / 4);
        // Nor does one of three that reports more than there is change what is expected.
        assert_eq!(
            expected_bandwidth(vec![u64::MAX, 50 * GB, 52 * GB]),
            50 * GB
        );
    }
}
