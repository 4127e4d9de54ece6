//! A scheduler with GPUs that its test moves by hand, and the checks that hold at all times.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tetris_scaler_dispatch::gpu::{
    Assignment, Gpu, GpuId, GpuModel, GpuPolicy, GpuRequest, GpuScheduler, ModelId, ObjectId, Part,
    Source, Topology,
};
use tetris_scaler_dispatch::{Outcome, RequestId};

/// Bytes of a megabyte.
pub const MB: u64 = 1_000_000;
/// Microseconds of a millisecond.
pub const MS: u64 = 1_000;

/// A model with parts of the given numbers and megabytes: 10 ms per run, none of it beside a load.
pub fn model(parts: &[(u64, u64)]) -> GpuModel {
    let part = |&(object, mb)| Part {
        object: ObjectId(object),
        bytes: mb * MB,
    };
    GpuModel {
        parts: parts.iter().map(part).collect(),
        setup_us: 0,
        infer_us: 10 * MS,
        after_load_us: 10 * MS,
    }
}

/// Nodes of four GPUs, in pairs at a switch of 1 GB/s, with links of 4 GB/s inside of a pair and
/// 2 GB/s across.
pub fn topology(gpus: u32, memory_mb: u64) -> Topology {
    let gpu = |id: u32| Gpu {
        memory_bytes: memory_mb * MB,
        node: id / 4,
        switch: id / 2,
    };
    let mut peers = BTreeMap::new();
    for from in 0..gpus {
        for to in (0..gpus).filter(|&to| to != from && to / 4 == from / 4) {
            let speed = if from / 2 == to / 2 { 4 } else { 2 };
            peers.insert((GpuId(from), GpuId(to)), speed * 1_000 * MB);
        }
    }
    Topology {
        gpus: (0..gpus).map(gpu).collect(),
        host_bytes_per_s: 1_000 * MB,
        peers,
    }
}

/// A scheduler with GPUs that its test moves by hand.
pub struct World {
    /// The scheduler.
    pub scheduler: GpuScheduler,
    /// Its policy.
    pub policy: Arc<dyn GpuPolicy>,
    /// Its GPUs and their links.
    pub topology: Topology,
    /// The time, in microseconds.
    pub now_us: u64,
    /// The assignment that each busy GPU executes.
    pub running: BTreeMap<GpuId, Assignment>,
    /// GPUs whose executor is lost.
    pub lost: BTreeSet<GpuId>,
    /// Requests that wait.
    pub waiting: BTreeSet<RequestId>,
    /// Requests that have ended.
    pub served: BTreeSet<RequestId>,
    /// Number of requests that the policy refused.
    pub refused: usize,
    /// Number of requests whose clients left.
    pub left: usize,
    next: u64,
}

impl World {
    /// Creates a scheduler without requests.
    pub fn new(
        policy: impl GpuPolicy + 'static,
        topology: Topology,
        models: Vec<GpuModel>,
    ) -> Self {
        let policy: Arc<dyn GpuPolicy> = Arc::new(policy);
        Self {
            scheduler: GpuScheduler::new(Arc::clone(&policy), topology.clone(), models),
            policy,
            topology,
            now_us: 1_000_000,
            running: BTreeMap::new(),
            lost: BTreeSet::new(),
            waiting: BTreeSet::new(),
            served: BTreeSet::new(),
            refused: 0,
            left: 0,
            next: 0,
        }
    }

    /// A request for a model comes.
    pub fn offer(&mut self, model: u32, slo_us: Option<u64>) -> RequestId {
        let id = RequestId(self.next);
        self.next += 1;
        let request = GpuRequest {
            id,
            function: model,
            model: ModelId(model),
            arrived_us: self.now_us,
            deadline_us: slo_us.map(|slo| self.now_us + slo),
        };
        self.scheduler.offer(request).unwrap();
        self.waiting.insert(id);
        id
    }

    /// Dispatches all that can be.
    pub fn dispatch(&mut self) -> Vec<Assignment> {
        let mut given = Vec::new();
        while let Some(one) = self.scheduler.dispatch(self.now_us) {
            assert!(!self.lost.contains(&one.gpu), "a lost GPU got {one:?}");
            assert!(self.waiting.remove(&one.request.id), "given twice: {one:?}");
            let before = self.running.insert(one.gpu, one.clone());
            assert_eq!(before, None, "the GPU was busy");
            let resident: Vec<ModelId> = self.scheduler.resident(one.gpu).collect();
            assert!(resident.contains(&one.request.model), "{one:?}");
            given.push(one);
        }
        self.check();
        given
    }

    /// Takes what the policy refuses; none of it could have been in time on an idle GPU with its
    /// model.
    pub fn reject(&mut self) {
        while let Some(request) = self.scheduler.reject(self.now_us) {
            assert!(self.waiting.remove(&request.id));
            let mut idle = self
                .topology
                .ids()
                .filter(|gpu| !self.lost.contains(gpu) && !self.running.contains_key(gpu));
            let has = |gpu| {
                self.scheduler
                    .resident(gpu)
                    .any(|entry| entry == request.model)
            };
            let in_time = request.deadline_us.unwrap() >= self.now_us + 10 * MS;
            assert!(!in_time || !idle.any(has), "{request:?}");
            self.refused += 1;
        }
    }

    /// The load of a GPU's request ends.
    pub fn loaded(&mut self, gpu: GpuId) {
        self.scheduler.loaded(gpu);
        self.check();
    }

    /// A GPU's request ends.
    pub fn complete(&mut self, gpu: GpuId, outcome: Outcome) {
        if let Some(one) = self.running.remove(&gpu) {
            let idle = self
                .scheduler
                .complete(self.now_us, one.request.id, outcome);
            assert_eq!(idle, Some(gpu));
            assert!(self.served.insert(one.request.id));
        }
    }

    /// The executor of a GPU is lost, and its memory with it; its request waits again.
    pub fn lose(&mut self, gpu: GpuId) {
        self.give_back(gpu);
        self.suspend(gpu);
    }

    /// The executor does not answer; its running request may still end.
    pub fn suspend(&mut self, gpu: GpuId) {
        self.scheduler.suspend_gpu(gpu);
        self.lost.insert(gpu);
        self.check();
    }

    /// Nothing of the GPU's request was executed: it waits again.
    pub fn give_back(&mut self, gpu: GpuId) {
        if let Some(one) = self.running.remove(&gpu) {
            let id = one.request.id;
            assert_eq!(self.scheduler.give_back(self.now_us, id), Some(gpu));
            self.waiting.insert(id);
        }
        self.check();
    }

    /// The client of some request leaves.
    pub fn cancel(&mut self, at: usize) {
        let running = self
            .running
            .iter()
            .map(|(&gpu, running)| (running.request.id, Some(gpu)));
        let waiting = self.waiting.iter().map(|&id| (id, None));
        let all: Vec<(RequestId, Option<GpuId>)> = running.chain(waiting).collect();
        let Some(&(id, gpu)) = all.get(at.checked_rem(all.len()).unwrap_or(0)) else {
            return;
        };
        assert_eq!(self.scheduler.cancel(self.now_us, id), gpu);
        assert_eq!(self.scheduler.cancel(self.now_us, id), None, "it is gone");
        self.waiting.remove(&id);
        self.running.retain(|_, one| one.request.id != id);
        self.left += 1;
        self.check();
    }

    /// The executor reports what is in its memory.
    pub fn observe(&mut self, gpu: GpuId, models: &[u32]) {
        let there: Vec<ModelId> = models.iter().map(|&number| ModelId(number)).collect();
        self.scheduler.observe_memory(self.now_us, gpu, &there);
        let resident: BTreeSet<ModelId> = self.scheduler.resident(gpu).collect();
        let needed = self.running.get(&gpu).map(|running| running.request.model);
        for id in resident {
            let copied_from = || {
                self.running.values().any(|entry| {
                    let load = entry.load.as_ref();
                    load.is_some_and(|load| load.source != Source::Host)
                })
            };
            assert!(
                there.contains(&id) || needed == Some(id) || copied_from(),
                "{id:?} is gone"
            );
        }
        self.check();
    }

    /// The executor of a GPU is there again.
    pub fn restore(&mut self, gpu: GpuId) {
        if self.lost.remove(&gpu) {
            self.scheduler.restore_gpu(self.now_us, gpu);
        }
    }

    /// Number of requests that were offered.
    pub const fn offered(&self) -> u64 {
        self.next
    }

    fn check(&self) {
        for gpu in self.topology.ids() {
            let memory = self.topology.gpu(gpu).unwrap().memory_bytes;
            assert!(self.scheduler.used_bytes(gpu) <= memory, "{gpu:?}");
        }
        for (gpu, entry) in &self.running {
            let mut resident = self.scheduler.resident(*gpu);
            assert!(resident.any(|id| id == entry.request.model), "{entry:?}");
        }
        assert_eq!(self.scheduler.waiting(), self.waiting.len());
    }
}

/// Serves one request of each model, so that model `n` is on GPU `n`.
pub fn warm(policy: impl GpuPolicy + 'static, gpus: u32) -> World {
    let models = (0..6).map(|number| model(&[(number, 400)])).collect();
    let mut world = World::new(policy, topology(gpus, 500), models);
    for number in 0..gpus {
        world.offer(number, None);
    }
    for given in world.dispatch() {
        assert_eq!(given.load.map(|load| load.source), Some(Source::Host));
    }
    world.now_us += 1_000 * MS;
    for gpu in 0..gpus {
        world.complete(GpuId(gpu), Outcome::Served);
    }
    world
}

/// Dispatches all that can be: model, GPU, and true for a hit, sorted.
pub fn given(world: &mut World) -> Vec<(u32, u32, bool)> {
    let given = world.dispatch().into_iter();
    let mut given: Vec<_> = given
        .map(|dispatch| {
            (
                dispatch.request.model.0,
                dispatch.gpu.0,
                dispatch.load.is_none(),
            )
        })
        .collect();
    given.sort_unstable();
    given
}

/// GPU that has the model.
pub fn gpu_of(world: &World, model: u32) -> u32 {
    let mut all = world.topology.ids();
    let gpu = all.find(|&gpu| world.scheduler.resident(gpu).any(|id| id == ModelId(model)));
    gpu.unwrap().0
}
