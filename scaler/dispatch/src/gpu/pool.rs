//! Facts about GPUs that all policies share.

use std::collections::{BTreeSet, VecDeque};

use super::attainment::Attainment;
use super::memory::DeviceMemory;
use super::model::{GpuModel, ModelId};
use super::popularity::Popularity;
use super::queue::Waiting;
use super::request::GpuRequest;
use super::topology::{GpuId, Topology, transfer_us};

/// Origin of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The host's memory, through the switch of the GPU.
    Host,
    /// The memory of another GPU, through their link.
    Gpu(GpuId),
}

/// The request that a GPU executes.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    pub waited: Waiting,
    /// Estimated time of the result.
    pub until_us: u64,
    /// Origin of the load that has not ended, and the model there that must stay.
    pub loading: Option<(Source, ModelId)>,
    /// True if the origin is dropped when the load has ended.
    pub moves: bool,
}

/// State of a GPU.
#[derive(Clone, Debug)]
pub struct GpuState {
    pub(crate) memory: DeviceMemory,
    pub(crate) running: Option<Running>,
    /// Requests that wait for this GPU.
    pub local: VecDeque<Waiting>,
    /// False while the executor of the GPU is lost.
    pub(crate) available: bool,
    /// Number of requests dispatched to the GPU.
    pub given: u64,
    /// Time since which nothing runs, in microseconds.
    pub idle_since_us: u64,
    /// Models that the executor of the GPU does not serve.
    pub(crate) unserved: BTreeSet<ModelId>,
}

impl GpuState {
    pub(crate) const fn new(memory: DeviceMemory, available: bool) -> Self {
        Self {
            memory,
            running: None,
            local: VecDeque::new(),
            available,
            given: 0,
            idle_since_us: 0,
            unserved: BTreeSet::new(),
        }
    }

    /// True if it can take a request now.
    pub fn is_idle(&self) -> bool {
        self.available && self.running.is_none()
    }
}

/// All GPUs, and the facts about them on which policies decide.
#[derive(Clone, Debug)]
pub struct Pool {
    /// Links between the GPUs.
    pub topology: Topology,
    pub(crate) models: Vec<GpuModel>,
    pub(crate) gpus: Vec<GpuState>,
    pub(crate) attainment: Attainment,
    pub(crate) popularity: Popularity,
}

impl Pool {
    pub(crate) fn gpu(&self, id: GpuId) -> Option<&GpuState> {
        self.gpus.get(id.0 as usize)
    }

    /// Returns the state of a GPU, to change its local queue.
    pub fn gpu_mut(&mut self, id: GpuId) -> Option<&mut GpuState> {
        self.gpus.get_mut(id.0 as usize)
    }

    /// Returns a model.
    pub fn model(&self, id: ModelId) -> Option<&GpuModel> {
        self.models.get(id.0 as usize)
    }

    /// GPUs that can take a request now.
    pub fn idle(&self) -> impl Iterator<Item = (GpuId, &GpuState)> {
        let all = self.topology.ids().zip(&self.gpus);
        all.filter(|(_, gpu)| gpu.is_idle())
    }

    /// GPUs that have the model.
    pub fn holders(&self, model: ModelId) -> impl Iterator<Item = (GpuId, &GpuState)> {
        let all = self.topology.ids().zip(&self.gpus);
        all.filter(move |(_, gpu)| gpu.available && gpu.memory.resident(model).is_some())
    }

    /// True if the GPU has the model, or loads it.
    pub fn has(&self, gpu: GpuId, model: ModelId) -> bool {
        self.gpu(gpu)
            .is_some_and(|gpu| gpu.memory.resident(model).is_some())
    }

    /// True if the GPU serves the model, which fits beside the models that must stay.
    pub fn can_hold(&self, gpu: GpuId, id: ModelId) -> bool {
        self.gpu(gpu)
            .zip(self.model(id))
            .is_some_and(|(gpu, model)| {
                !gpu.unserved.contains(&id) && gpu.memory.can_hold(id, model)
            })
    }

    pub(crate) fn infer_us(&self, request: &GpuRequest) -> u64 {
        self.model(request.model).map_or(0, |model| model.infer_us)
    }

    /// True if the function is so far from its SLO that it waits behind others.
    pub fn is_low(&self, function: u32) -> bool {
        self.attainment.is_low(function)
    }

    /// Models of the GPU that may be evicted, by `key` of the model and the time of its last use in
    /// microseconds.
    pub fn evictable_by<K: Ord>(
        &self,
        gpu: GpuId,
        key: impl Fn(ModelId, u64) -> K,
    ) -> Vec<ModelId> {
        let models = self
            .gpu(gpu)
            .into_iter()
            .flat_map(|gpu| gpu.memory.models());
        let mut evictable: Vec<(K, ModelId)> = models
            .filter(|(_, resident)| !resident.is_pinned())
            .map(|(id, resident)| (key(id, resident.used_us), id))
            .collect();
        evictable.sort();
        evictable.into_iter().map(|(_, id)| id).collect()
    }

    /// Estimated time until the GPU has served its requests, local queue included, in microseconds.
    pub fn busy_us(&self, now_us: u64, gpu: &GpuState) -> u64 {
        let running = gpu.running.as_ref();
        let rest = running.map_or(0, |entry| entry.until_us.saturating_sub(now_us));
        let queued = gpu.local.iter().map(|local| self.infer_us(&local.request));
        queued.fold(rest, u64::saturating_add)
    }

    /// Estimated time of the earliest result for a model: on each GPU after the request that it
    /// executes, with the missing bytes at the whole bandwidth of the host's switch or, if the policy
    /// `copies` between GPUs, of a faster link. Nothing if no GPU is available that can hold it.
    pub(crate) fn soonest_us(&self, now_us: u64, id: ModelId, copies: bool) -> Option<u64> {
        let model = self.model(id)?;
        let bytes = model.bytes();
        let able = self.topology.ids().zip(&self.gpus).filter(|(gpu, state)| {
            let memory = self.topology.gpu(*gpu).map_or(0, |gpu| gpu.memory_bytes);
            state.available && !state.unserved.contains(&id) && bytes <= memory
        });
        let results = able.map(|(gpu, state)| {
            let running = state.running.as_ref();
            let free_us = running.map_or(now_us, |entry| entry.until_us.max(now_us));
            let service_us = if state.memory.resident(id).is_some() {
                model.infer_us
            } else {
                let missing = state.memory.missing_bytes(id, model);
                let links = self.topology.peers.iter();
                let links = links.filter(|((_, to), _)| copies && *to == gpu);
                let fastest = links.map(|(_, &speed)| speed).max().unwrap_or(0);
                let speed = fastest.max(self.topology.host_bytes_per_s);
                model.service_us(transfer_us(missing, speed))
            };
            free_us.saturating_add(service_us)
        });
        results.min()
    }

    /// Model that the GPU loads from the host.
    pub fn loads_from_host(&self, gpu: GpuId) -> Option<ModelId> {
        let running = self.gpu(gpu)?.running.as_ref()?;
        match running.loading {
            Some((Source::Host, _)) => Some(running.waited.request.model),
            _ => None,
        }
    }

    /// The fastest link from a GPU that has all bytes that this one lacks: origin, model there,
    /// bytes per second.
    pub fn peer_source(&self, gpu: GpuId, id: ModelId) -> Option<(GpuId, ModelId, u64)> {
        let (own, model) = (self.gpu(gpu)?, self.model(id)?);
        let source = self.topology.ids().filter_map(|other| {
            let speed = *self.topology.peers.get(&(other, gpu))?;
            let there = self.gpu(other).filter(|entry| entry.available)?;
            let source = there.memory.source_for(id, model, &own.memory)?;
            Some((other, source, speed))
        });
        source.max_by_key(|&(other, _, speed)| (speed, std::cmp::Reverse(other)))
    }
}
