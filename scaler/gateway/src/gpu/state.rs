//! State of a pool behind its lock: the scheduler, the requests and the executors.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use tetris_scaler_dispatch::gpu::{
    Assignment, Gpu, GpuId, GpuPolicy, GpuRejection, GpuRequest, GpuScheduler, ModelId, Topology,
};
use tetris_scaler_dispatch::{Outcome, Rejection, RequestId};
use tokio::sync::oneshot;

use super::contents::PartNumbers;
use super::device::Device;
use super::executor::{Executor, ExecutorAddresses};
use super::models::Models;
use super::places::Places;
use super::report::Totals;
use crate::candidate::Candidate;
use crate::refusal::Refusal;

/// Number of failures in a row after which an executor gets nothing for a time.
const FAILURES: u32 = 3;
/// That time for the first of them, in microseconds; it doubles up to 64 times.
const PAUSE_US: u64 = 1_000_000;
/// Interval in which the policy looks again at requests that wait while a GPU is idle, in
/// microseconds.
const LOOK_US: u64 = 20_000;

/// A GPU given to a request.
#[derive(Debug)]
pub(super) struct Given {
    pub executor: Arc<Executor>,
    pub waited_us: u64,
    /// Orders before the request.
    pub load: Option<LoadOrder>,
}

/// A load, by the names of models at the executors.
#[derive(Debug)]
pub(super) struct LoadOrder {
    pub evicted: Vec<String>,
    pub model: String,
}

/// End of a wait.
pub(super) type Answer = Result<Given, Refusal>;

/// An order to unload a model.
pub(super) type Unload = (Arc<Executor>, String);

#[derive(Debug)]
enum Place {
    Waiting(oneshot::Sender<Answer>),
    Running(GpuId),
}

#[derive(Debug)]
struct Held {
    request: GpuRequest,
    place: Place,
}

/// An executor as the pool knows it.
#[derive(Debug)]
pub(super) struct Known {
    pub executor: Arc<Executor>,
    /// Number of changes that the gateway made. A page asked for before the last one does not
    /// tell what is in the memory.
    pub changes: u64,
    /// Request whose orders it was not yet seen to take. Meanwhile no page shows what is in the memory.
    pub orders_for: Option<RequestId>,
    /// Facts of its last page.
    pub device: Option<Device>,
    /// True if the next page must have the parts of models.
    pub needs_parts: bool,
    /// False if the configuration does not have it any more.
    pub listed: bool,
    /// True if its last page was refused.
    pub is_unusable: bool,
    /// Number of failures in a row.
    pub failures: u32,
    /// Time before which it gets nothing, in microseconds.
    pub pause_until_us: u64,
}

#[derive(Debug)]
pub(super) struct State {
    pub scheduler: GpuScheduler,
    /// Executors by their GPU: those of the configuration, and those that have left it and still have a request.
    pub executors: BTreeMap<GpuId, Known>,
    /// Executors that have left the configuration.
    leaving: Vec<GpuId>,
    /// Numbers of GPUs without an executor.
    free: Vec<GpuId>,
    pub models: Models,
    pub part_numbers: PartNumbers,
    pub totals: Totals,
    /// Maximum number of waiting requests.
    pub queue: usize,
    /// Numbers of nodes and switches by name.
    pub places: Places,
    requests: HashMap<RequestId, Held>,
    numbers: u64,
}

impl State {
    pub(super) fn new(policy: Arc<dyn GpuPolicy>, queue: usize) -> Self {
        Self {
            scheduler: GpuScheduler::new(policy, Topology::default(), Vec::new()),
            executors: BTreeMap::new(),
            leaving: Vec::new(),
            free: Vec::new(),
            models: Models::default(),
            part_numbers: PartNumbers::default(),
            totals: Totals::default(),
            queue,
            places: Places::default(),
            requests: HashMap::new(),
            numbers: 0,
        }
    }

    /// Executors of the configuration, each with the request that it has.
    pub(super) fn candidates(&self, now_us: u64) -> Vec<Candidate> {
        let running: HashSet<GpuId> = self
            .requests
            .values()
            .filter_map(|held| match held.place {
                Place::Running(gpu) => Some(gpu),
                Place::Waiting(_) => None,
            })
            .collect();
        let listed = self.executors.iter().filter(|(_, known)| known.listed);
        let candidates = listed.map(|(gpu, known)| Candidate {
            name: known.executor.endpoint.name.clone(),
            outstanding: running.contains(gpu).into(),
            room: 1,
            excluded: if known.is_unusable {
                Some("unusable")
            } else if known.device.is_none() {
                Some("unknown")
            } else {
                (known.pause_until_us > now_us).then_some("paused")
            },
        });
        candidates.collect()
    }

    /// Adds an executor, which gets nothing before its first page.
    pub(super) fn add(&mut self, addresses: ExecutorAddresses) -> Arc<Executor> {
        let empty = Gpu {
            memory_bytes: 0,
            node: 0,
            switch: 0,
        };
        let gpu = self
            .free
            .pop()
            .unwrap_or_else(|| self.scheduler.add_gpu(empty));
        let executor = Arc::new(Executor::new(gpu, addresses));
        let known = Known {
            executor: Arc::clone(&executor),
            changes: 0,
            orders_for: None,
            device: None,
            needs_parts: true,
            listed: true,
            is_unusable: false,
            failures: 0,
            pause_until_us: 0,
        };
        self.executors.insert(gpu, known);
        executor
    }

    /// Drops an executor that has left the configuration, with all that it has reported; the rest of it once its request has ended.
    pub(super) fn leave(&mut self, gpu: GpuId) {
        self.lost(gpu, "the configuration does not have it any more");
        self.forget(gpu);
        if let Some(known) = self.executors.get_mut(&gpu) {
            known.listed = false;
            self.leaving.push(gpu);
        }
    }

    fn drop_left(&mut self) {
        for gpu in std::mem::take(&mut self.leaving) {
            if self.scheduler.forget_gpu(gpu) {
                self.executors.remove(&gpu);
                self.free.push(gpu);
            } else {
                self.leaving.push(gpu);
            }
        }
    }

    /// Returns true if the configuration has this executor.
    pub(super) fn has(&self, executor: &Arc<Executor>) -> bool {
        let known = self.executors.get(&executor.gpu);
        known.is_some_and(|known| known.listed && Arc::ptr_eq(&known.executor, executor))
    }

    pub(super) fn offer(
        &mut self,
        now_us: u64,
        (function, model): (u32, ModelId),
        slo_us: u64,
    ) -> Result<(RequestId, oneshot::Receiver<Answer>), Refusal> {
        let waiting = self.scheduler.waiting();
        if waiting >= self.queue {
            let retry_us = self.scheduler.backlog_us(now_us).unwrap_or(0) / 2;
            return Err(Refusal::Rejected(Rejection::Full { waiting, retry_us }));
        }
        self.check_served(model)?;
        self.numbers = self.numbers.saturating_add(1);
        let request = GpuRequest {
            id: RequestId(self.numbers),
            function,
            model,
            arrived_us: now_us,
            deadline_us: Some(now_us.saturating_add(slo_us)),
        };
        self.scheduler
            .offer(request)
            .map_err(|rejection| match rejection {
                GpuRejection::TooLarge { bytes, largest } => Refusal::TooLarge { bytes, largest },
                _ => Refusal::Unserved { executors: 0 },
            })?;
        let (sender, receiver) = oneshot::channel();
        let place = Place::Waiting(sender);
        self.requests.insert(request.id, Held { request, place });
        self.pump(now_us);
        Ok((request.id, receiver))
    }

    /// Refuses a model that no executor has. Without an executor that answers, requests wait for one.
    fn check_served(&self, model: ModelId) -> Result<(), Refusal> {
        let available = self.executors.keys().copied();
        let mut available = available.filter(|&gpu| self.scheduler.is_available(gpu));
        let executors = available.clone().count();
        if executors == 0 || available.any(|gpu| self.scheduler.serves(gpu, model)) {
            return Ok(());
        }
        Err(Refusal::Unserved { executors })
    }

    /// Refuses requests that cannot be in time, and gives GPUs to those that can have one.
    pub(super) fn pump(&mut self, now_us: u64) {
        while let Some(request) = self.scheduler.reject(now_us) {
            self.totals.late += 1;
            let soonest_us = self.scheduler.soonest_us(now_us, &request);
            let deadline_us = request.deadline_us.unwrap_or(u64::MAX);
            let refusal = Refusal::Rejected(Rejection::TooLate {
                estimate_us: soonest_us.saturating_sub(request.arrived_us),
                allowed_us: deadline_us.saturating_sub(request.arrived_us),
                retry_us: self.scheduler.backlog_us(now_us).unwrap_or(0),
            });
            if let Some(Held {
                place: Place::Waiting(sender),
                ..
            }) = self.requests.remove(&request.id)
            {
                // Its client may have left.
                drop(sender.send(Err(refusal)));
            }
        }
        while let Some(assignment) = self.scheduler.dispatch(now_us) {
            self.give(now_us, &assignment);
        }
        self.drop_left();
    }

    fn give(&mut self, now_us: u64, assignment: &Assignment) {
        let (id, gpu) = (assignment.request.id, assignment.gpu);
        let given = self.changed(gpu).map(|executor| Given {
            executor,
            waited_us: now_us.saturating_sub(assignment.request.arrived_us),
            load: self.load(assignment),
        });
        if assignment.load.is_some()
            && let Some(known) = self.executors.get_mut(&gpu)
        {
            known.orders_for = Some(id);
        }
        let request = self.requests.get_mut(&id);
        let place =
            request.map(|request| std::mem::replace(&mut request.place, Place::Running(gpu)));
        let taken = match (place, given) {
            (Some(Place::Waiting(sender)), Some(given)) => sender.send(Ok(given)).is_ok(),
            _ => false,
        };
        if !taken {
            // Its client has left, and its task is about to say so.
            self.requests.remove(&id);
            self.scheduler.cancel(now_us, id);
        }
    }

    fn load(&mut self, assignment: &Assignment) -> Option<LoadOrder> {
        let Some(load) = &assignment.load else {
            self.totals.hits += 1;
            return None;
        };
        self.totals.loads += 1;
        self.totals.load_bytes = self.totals.load_bytes.saturating_add(load.bytes);
        self.totals.evictions += load.evicted.len() as u64;
        let evicted = load.evicted.iter();
        Some(LoadOrder {
            evicted: evicted.map(|&id| self.models.name(id).to_owned()).collect(),
            model: self.models.name(assignment.request.model).to_owned(),
        })
    }

    /// Notes that an executor has taken the orders for its request.
    pub(super) fn ordered(&mut self, gpu: GpuId) {
        if let Some(known) = self.executors.get_mut(&gpu) {
            known.orders_for = None;
        }
        self.changed(gpu);
    }

    /// Returns true if the executor may not have taken the orders for its request.
    pub(super) fn has_orders(&self, gpu: GpuId) -> bool {
        let known = self.executors.get(&gpu);
        let orders_for = known.and_then(|known| known.orders_for);
        let running = self.scheduler.running(gpu).map(|request| request.id);
        orders_for.is_some() && orders_for == running
    }

    /// Notes a change of a GPU by the gateway, and asks for its page.
    fn changed(&mut self, gpu: GpuId) -> Option<Arc<Executor>> {
        let known = self.executors.get_mut(&gpu)?;
        known.changes = known.changes.wrapping_add(1);
        known.executor.changed.notify_one();
        Some(Arc::clone(&known.executor))
    }

    /// Ends a request that an executor got. Returns the model that a copy to its GPU has moved.
    pub(super) fn complete(
        &mut self,
        now_us: u64,
        id: RequestId,
        outcome: Outcome,
    ) -> Option<Unload> {
        let request = self.requests.remove(&id)?;
        let Place::Running(gpu) = request.place else {
            return None;
        };
        let moved = match outcome {
            Outcome::Served => self.scheduler.loaded(gpu),
            Outcome::Failed => None,
        };
        self.scheduler.complete(now_us, id, outcome);
        match outcome {
            Outcome::Served => self.succeeded(gpu),
            Outcome::Failed => self.failed(now_us, gpu, "requests failed"),
        }
        self.changed(gpu);
        self.pump(now_us);
        let (origin, model) = moved?;
        Some((self.changed(origin)?, self.models.name(model).to_owned()))
    }

    /// Removes a request whose client has left, or that has waited for as long as it may.
    pub(super) fn cancel(&mut self, now_us: u64, id: RequestId) {
        if self.requests.remove(&id).is_some() {
            if let Some(gpu) = self.scheduler.cancel(now_us, id) {
                self.changed(gpu);
            }
            self.pump(now_us);
        }
    }

    /// Lets a request wait again that its executor did not get, and lets the executor rest.
    pub(super) fn give_back(
        &mut self,
        now_us: u64,
        id: RequestId,
        reason: &GivenBack,
    ) -> Option<oneshot::Receiver<Answer>> {
        let request = self.requests.get_mut(&id)?;
        let Place::Running(gpu) = request.place else {
            return None;
        };
        let (sender, receiver) = oneshot::channel();
        request.place = Place::Waiting(sender);
        self.totals.given_back += 1;
        self.scheduler.give_back(now_us, id);
        match reason {
            GivenBack::Unreachable => self.lost(gpu, "a request could not be sent"),
            GivenBack::Refused(reason) => self.failed(now_us, gpu, reason),
        }
        self.changed(gpu);
        self.pump(now_us);
        Some(receiver)
    }

    /// Notes that an executor does not answer. A page of it ends that.
    pub(super) fn lost(&mut self, gpu: GpuId, reason: &str) {
        let was_available = self.scheduler.is_available(gpu);
        self.scheduler.suspend_gpu(gpu);
        if let Some(executor) = self.changed(gpu)
            && was_available
        {
            self.totals.lost += 1;
            let executor = executor.endpoint.address;
            tracing::warn!(%executor, reason, "executor lost; its waiting requests go to other GPUs");
        }
    }

    /// Notes that a page of an executor is above a limit or cannot be read. Pages are asked for still; one that is within the
    /// limits ends that after a pause.
    pub(super) fn refuse(&mut self, now_us: u64, gpu: GpuId, reason: &str) {
        self.totals.refused_pages += 1;
        self.forget(gpu);
        self.scheduler.suspend_gpu(gpu);
        let Some(known) = self.executors.get_mut(&gpu) else {
            return;
        };
        known.changes = known.changes.wrapping_add(1);
        known.pause_until_us = now_us.saturating_add(PAUSE_US);
        if !std::mem::replace(&mut known.is_unusable, true) {
            let executor = known.executor.endpoint.address;
            tracing::warn!(%executor, reason, "executor not usable: its page is refused; its waiting requests go to other GPUs");
        }
    }

    fn succeeded(&mut self, gpu: GpuId) {
        if let Some(known) = self.executors.get_mut(&gpu) {
            known.failures = 0;
        }
    }

    fn failed(&mut self, now_us: u64, gpu: GpuId, reason: &str) {
        let Some(known) = self.executors.get_mut(&gpu) else {
            return;
        };
        known.failures = known.failures.saturating_add(1);
        if known.failures < FAILURES {
            return;
        }
        let doubled = (known.failures - FAILURES).min(6);
        known.pause_until_us = now_us.saturating_add(PAUSE_US << doubled);
        self.lost(gpu, reason);
    }

    /// Time of the next event without a cause from outside.
    pub(super) fn next_us(&self, now_us: u64) -> Option<u64> {
        let waits = self.scheduler.waiting() > 0;
        let look_us = waits.then(|| now_us.saturating_add(LOOK_US));
        [self.scheduler.next_us(), look_us]
            .into_iter()
            .flatten()
            .min()
    }

    /// Numbers of waiting and of running requests of a function, and the first arrival among those
    /// that wait.
    pub(super) fn load_of(&self, function: u32) -> (usize, usize, Option<u64>) {
        let all = self.requests.values();
        let of_function = all.filter(|held| held.request.function == function);
        of_function.fold((0, 0, None), |(waiting, running, first), held| {
            match held.place {
                Place::Running(_) => (waiting, running + 1, first),
                Place::Waiting(_) => {
                    let arrived_us = held.request.arrived_us;
                    let first = first.map_or(arrived_us, |first: u64| first.min(arrived_us));
                    (waiting + 1, running, Some(first))
                }
            }
        })
    }

    /// Number of executors that get requests.
    pub(super) fn available(&self) -> usize {
        let gpus = self.executors.keys().copied();
        gpus.filter(|&gpu| self.scheduler.is_available(gpu)).count()
    }
}

/// The reason a request waits again.
#[derive(Debug)]
pub(super) enum GivenBack {
    /// The executor cannot be reached.
    Unreachable,
    /// It does not carry out the orders before the request.
    Refused(String),
}
