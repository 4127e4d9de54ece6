//! The scheduler of GPUs: requests and outcomes in, assignments out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::id::RequestId;
use crate::outcome::Outcome;

use super::assignment::{Assignment, Load};
use super::attainment::Attainment;
use super::memory::DeviceMemory;
use super::model::{GpuModel, ModelId};
use super::policy::GpuPolicy;
use super::pool::{GpuState, Pool, Running, Source};
use super::popularity::Popularity;
use super::queue::{GlobalQueue, Waiting};
use super::rejection::GpuRejection;
use super::request::GpuRequest;
use super::topology::{GpuId, Topology, transfer_us};

/// Scheduler of requests onto GPUs.
#[derive(Clone, Debug)]
pub struct GpuScheduler {
    pub(super) policy: Arc<dyn GpuPolicy>,
    pub(super) pool: Pool,
    pub(super) queue: GlobalQueue,
    pub(super) known: BTreeSet<RequestId>,
}

impl GpuScheduler {
    /// Creates a scheduler of idle GPUs with empty memories.
    pub fn new(policy: Arc<dyn GpuPolicy>, topology: Topology, models: Vec<GpuModel>) -> Self {
        let gpus = topology
            .gpus
            .iter()
            .map(|gpu| GpuState::new(DeviceMemory::new(gpu.memory_bytes, policy.shares()), true));
        Self {
            pool: Pool {
                gpus: gpus.collect(),
                topology,
                models,
                attainment: Attainment::default(),
                popularity: Popularity::default(),
            },
            policy,
            queue: GlobalQueue::default(),
            known: BTreeSet::new(),
        }
    }

    /// Queues a request.
    ///
    /// # Errors
    ///
    /// Fails if the request is known, or no GPU can ever execute it.
    pub fn offer(&mut self, request: GpuRequest) -> Result<(), GpuRejection> {
        let Some(model) = self.pool.model(request.model) else {
            return Err(GpuRejection::UnknownModel {
                model: request.model,
                models: self.pool.models.len(),
            });
        };
        let bytes = model.bytes();
        let gpus = self.pool.topology.gpus.iter();
        let largest = gpus.map(|gpu| gpu.memory_bytes).max().unwrap_or(0);
        if bytes > largest {
            return Err(GpuRejection::TooLarge { bytes, largest });
        }
        if !self.known.insert(request.id) {
            return Err(GpuRejection::Known);
        }
        self.pool.popularity.add(request.model.0 as usize);
        self.queue.push(request, 0);
        Ok(())
    }

    /// Returns the next assignment. The owner calls this after each event until there is none.
    pub fn dispatch(&mut self, now_us: u64) -> Option<Assignment> {
        let (waited, gpu) = self.policy.next(now_us, &mut self.queue, &mut self.pool)?;
        self.start(now_us, waited, gpu)
    }

    /// Takes a waiting request that cannot be in time by [`soonest_us`](Self::soonest_us), where the
    /// policy refuses such requests. The owner calls this before it dispatches.
    pub fn reject(&mut self, now_us: u64) -> Option<GpuRequest> {
        if !self.policy.rejects_late() {
            return None;
        }
        let mut known: BTreeMap<ModelId, u64> = BTreeMap::new();
        let at = self.queue.iter().position(|item| {
            let request = &item.request;
            let soonest = known
                .entry(request.model)
                .or_insert_with(|| self.soonest_us(now_us, request));
            request
                .deadline_us
                .is_some_and(|deadline| *soonest > deadline)
        })?;
        let request = self.queue.drop_at(at)?.request;
        self.known.remove(&request.id);
        self.pool.attainment.add(request.function, false);
        Some(request)
    }

    fn start(&mut self, now_us: u64, waited: Waiting, gpu: GpuId) -> Option<Assignment> {
        let id = waited.request.model;
        let load = if self.pool.has(gpu, id) {
            None
        } else {
            let Some(load) = self.load(now_us, gpu, id) else {
                self.queue.push(waited.request, waited.overtaken);
                return None;
            };
            Some(load)
        };
        let moves = self.policy.moves_when_full()
            && load
                .as_ref()
                .is_some_and(|(load, _)| !load.evicted.is_empty());
        let model = self.pool.model(id)?;
        let service_us = match &load {
            None => model.infer_us,
            Some((load, _)) => {
                model.service_us(transfer_us(load.bytes, self.speed(gpu, load.source)))
            }
        };
        let state = self.pool.gpu_mut(gpu)?;
        if load.is_none() {
            state.memory.pin(id);
            state.memory.touch(now_us, id);
        }
        state.given += 1;
        state.running = Some(Running {
            waited,
            until_us: now_us.saturating_add(service_us),
            loading: load.as_ref().map(|(load, from)| (load.source, *from)),
            moves,
        });
        Some(Assignment {
            request: waited.request,
            gpu,
            load: load.map(|(load, _)| load),
        })
    }

    /// Makes room and pins what the load needs. Also returns the model at the origin.
    fn load(&mut self, now_us: u64, gpu: GpuId, id: ModelId) -> Option<(Load, ModelId)> {
        let peer = self
            .policy
            .copies_between_gpus()
            .then(|| self.pool.peer_source(gpu, id));
        let peer = peer.flatten();
        let elsewhere = self.pool.holders(id).next().is_some();
        let victims = self.policy.victims(&self.queue, &self.pool, gpu);
        let model = self.pool.models.get(id.0 as usize)?;
        let state = self.pool.gpus.get_mut(gpu.0 as usize)?;
        let bytes = state.memory.missing_bytes(id, model);
        let mut victims = victims.into_iter();
        let evicted = state.memory.load(now_us, id, model, |_| victims.next())?;
        let (source, from) = match peer {
            Some((other, from, _)) => (Source::Gpu(other), from),
            None => (Source::Host, id),
        };
        self.set_source(source, |memory| memory.pin(from));
        let load = Load {
            evicted,
            source,
            bytes,
            elsewhere,
        };
        Some((load, from))
    }

    fn set_source(&mut self, source: Source, change: impl FnOnce(&mut DeviceMemory)) {
        if let Source::Gpu(other) = source
            && let Some(state) = self.pool.gpu_mut(other)
        {
            change(&mut state.memory);
        }
    }

    fn speed(&self, gpu: GpuId, source: Source) -> u64 {
        let topology = &self.pool.topology;
        match source {
            Source::Host => topology.host_bytes_per_s,
            Source::Gpu(other) => topology.peers.get(&(other, gpu)).copied().unwrap_or(0),
        }
    }

    /// Notes that the load of the GPU's request has ended. Returns the GPU and the model that were
    /// its origin, if the load moved the model and so evicted it there.
    pub fn loaded(&mut self, gpu: GpuId) -> Option<(GpuId, ModelId)> {
        let state = self.pool.gpu_mut(gpu)?;
        let running = state.running.as_mut()?;
        let (source, from) = running.loading.take()?;
        state.memory.set_loaded(running.waited.request.model);
        let moves = running.moves;
        let mut moved = false;
        self.set_source(source, |memory| {
            memory.unpin(from);
            moved = moves && memory.evict(from);
        });
        match source {
            Source::Gpu(other) if moved => Some((other, from)),
            Source::Gpu(_) | Source::Host => None,
        }
    }

    /// Notes the end of a request, and returns its GPU, which is idle again. A load that has not
    /// ended is given up with its request.
    pub fn complete(&mut self, now_us: u64, id: RequestId, outcome: Outcome) -> Option<GpuId> {
        let gpu = self.gpu_of(id)?;
        if outcome == Outcome::Served {
            self.loaded(gpu);
        }
        let running = self.stop(now_us, gpu)?;
        let request = running.waited.request;
        let late = request
            .deadline_us
            .is_some_and(|deadline| now_us > deadline);
        let in_time = outcome == Outcome::Served && !late;
        self.pool.attainment.add(request.function, in_time);
        self.known.remove(&running.waited.request.id);
        Some(gpu)
    }

    /// GPU that executes the request.
    pub(super) fn gpu_of(&self, id: RequestId) -> Option<GpuId> {
        let mut all = self.pool.topology.ids().zip(&self.pool.gpus);
        let state = all.find(|(_, state)| {
            let running = state.running.as_ref();
            running.is_some_and(|running| running.waited.request.id == id)
        });
        state.map(|(gpu, _)| gpu)
    }

    /// Takes the running request of a GPU, with its pins.
    pub(super) fn stop(&mut self, now_us: u64, gpu: GpuId) -> Option<Running> {
        let state = self.pool.gpu_mut(gpu)?;
        let running = state.running.take()?;
        let model = running.waited.request.model;
        state.idle_since_us = now_us;
        state.memory.unpin(model);
        if let Some((source, from)) = running.loading {
            state.memory.evict(model);
            self.set_source(source, |memory| memory.unpin(from));
        }
        Some(running)
    }

    /// Notes that the executor of a GPU is there again.
    pub fn restore_gpu(&mut self, now_us: u64, gpu: GpuId) {
        if let Some(state) = self.pool.gpu_mut(gpu)
            && !state.available
        {
            state.available = true;
            state.idle_since_us = now_us;
        }
    }

    /// Number of requests that wait, in all queues.
    pub fn waiting(&self) -> usize {
        let local = self.pool.gpus.iter().map(|gpu| gpu.local.len());
        self.queue.len() + local.sum::<usize>()
    }

    /// Number of requests bound to no GPU.
    pub fn unbound(&self) -> usize {
        self.queue.len()
    }

    /// Greatest number of times that a request of the global queue has been overtaken.
    pub fn most_overtaken(&self) -> u32 {
        let waiting = self.queue.iter().map(|queue| queue.overtaken);
        waiting.max().unwrap_or(0)
    }

    /// Number of GPUs that execute nothing and have no their own requests.
    pub fn idle_gpus(&self) -> usize {
        self.pool
            .idle()
            .filter(|(_, gpu)| gpu.local.is_empty())
            .count()
    }

    /// Bytes of device memory in use.
    pub fn used_bytes(&self, gpu: GpuId) -> u64 {
        self.pool.gpu(gpu).map_or(0, |state| state.memory.used())
    }

    /// Models in the memory of a GPU, those that are being loaded included.
    pub fn resident(&self, gpu: GpuId) -> impl Iterator<Item = ModelId> {
        let state = self.pool.gpu(gpu);
        state
            .into_iter()
            .flat_map(|entry| entry.memory.models().map(|(id, _)| id))
    }

    /// Number of GPUs that have the model.
    pub fn replicas(&self, model: ModelId) -> usize {
        self.pool.holders(model).count()
    }
}
