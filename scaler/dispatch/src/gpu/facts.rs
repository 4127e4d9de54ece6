//! Facts that the owner learns while requests run: GPUs, links, models and the content of memories.

use super::memory::DeviceMemory;
use super::model::{GpuModel, ModelId};
use super::pool::{GpuState, Source};
use super::scheduler::GpuScheduler;
use super::topology::{Gpu, GpuId};

impl GpuScheduler {
    /// Adds a GPU with an empty memory, which gets nothing before
    /// [`restore_gpu`](Self::restore_gpu). Returns its number.
    pub fn add_gpu(&mut self, gpu: Gpu) -> GpuId {
        let id = GpuId(u32::try_from(self.pool.gpus.len()).unwrap_or(u32::MAX));
        let memory = DeviceMemory::new(gpu.memory_bytes, self.policy.shares());
        self.pool.topology.gpus.push(gpu);
        self.pool.gpus.push(GpuState::new(memory, false));
        id
    }

    /// Changes the description of a GPU. With less memory than its models have, the next load there
    /// evicts until they fit.
    pub fn set_gpu(&mut self, id: GpuId, gpu: Gpu) {
        let at = id.0 as usize;
        if let Some(known) = self.pool.topology.gpus.get_mut(at) {
            *known = gpu;
        }
        if let Some(state) = self.pool.gpus.get_mut(at) {
            state.memory.set_capacity(gpu.memory_bytes);
        }
    }

    /// Sets the bandwidth of each switch from the host, in bytes per second.
    pub const fn set_host_bandwidth(&mut self, bytes_per_s: u64) {
        self.pool.topology.host_bytes_per_s = bytes_per_s;
    }

    /// Forgets a GPU whose executor is gone for good: its number stays, for another executor. Requests of its local queue wait for
    /// any GPU. Returns false, and does nothing, while the GPU executes a request or one loads from it.
    pub fn forget_gpu(&mut self, id: GpuId) -> bool {
        let mut others = self.pool.gpus.iter();
        let is_origin = others.any(|state| {
            let loading = state.running.as_ref().and_then(|running| running.loading);
            loading.is_some_and(|(source, _)| source == Source::Gpu(id))
        });
        let is_needed = is_origin || self.running(id).is_some();
        let (Some(gpu), Some(state), false) = (
            self.pool.topology.gpus.get_mut(id.0 as usize),
            self.pool.gpus.get_mut(id.0 as usize),
            is_needed,
        ) else {
            return false;
        };
        *gpu = Gpu {
            memory_bytes: 0,
            node: 0,
            switch: 0,
        };
        let memory = DeviceMemory::new(0, self.policy.shares());
        let gone = std::mem::replace(state, GpuState::new(memory, false));
        for waited in gone.local {
            self.queue.push(waited.request, waited.overtaken);
        }
        let peers = &mut self.pool.topology.peers;
        peers.retain(|&(from, to), _| from != id && to != id);
        true
    }

    /// Replaces the links from a GPU to others: destinations, and bytes per second.
    pub fn set_links(&mut self, from: GpuId, links: &[(GpuId, u64)]) {
        let peers = &mut self.pool.topology.peers;
        let known = peers.range((from, GpuId(0))..=(from, GpuId(u32::MAX)));
        let known: Vec<(GpuId, GpuId)> = known.map(|(&link, _)| link).collect();
        for link in known {
            peers.remove(&link);
        }
        peers.extend(links.iter().map(|&(to, speed)| ((from, to), speed)));
    }

    /// Adds a model. Returns its number.
    pub fn add_model(&mut self, model: GpuModel) -> ModelId {
        let id = ModelId(u32::try_from(self.pool.models.len()).unwrap_or(u32::MAX));
        self.pool.models.push(model);
        id
    }

    /// Changes the description of a model. Where it is resident, the record keeps the parts that it
    /// was loaded with.
    pub fn set_model(&mut self, id: ModelId, model: GpuModel) {
        if let Some(known) = self.pool.models.get_mut(id.0 as usize) {
            *known = model;
        }
    }

    /// Description of a model.
    pub fn model(&self, id: ModelId) -> Option<&GpuModel> {
        self.pool.model(id)
    }

    /// Sets the models that the executor of a GPU does not serve.
    pub fn set_unserved(&mut self, gpu: GpuId, models: impl IntoIterator<Item = ModelId>) {
        if let Some(state) = self.pool.gpu_mut(gpu) {
            state.unserved = models.into_iter().collect();
        }
    }

    /// Returns true if the executor of the GPU serves the model.
    pub fn serves(&self, gpu: GpuId, model: ModelId) -> bool {
        let state = self.pool.gpu(gpu);
        state.is_some_and(|state| !state.unserved.contains(&model))
    }

    /// Makes the record of a memory agree with the models that are there. Models that a run or a
    /// copy needs stay. Models without room in the record stay out of it: the owner evicts them.
    pub fn observe_memory(&mut self, now_us: u64, gpu: GpuId, there: &[ModelId]) {
        let models = &self.pool.models;
        let there: Vec<(ModelId, &GpuModel)> = there
            .iter()
            .filter_map(|&id| Some((id, models.get(id.0 as usize)?)))
            .collect();
        if let Some(state) = self.pool.gpus.get_mut(gpu.0 as usize) {
            state.memory.observe(now_us, &there);
        }
    }

    /// Number of parts in the record of a GPU's memory, each as often as models have it.
    pub fn recorded_parts(&self, gpu: GpuId) -> usize {
        let state = self.pool.gpu(gpu);
        state.map_or(0, |state| state.memory.parts())
    }

    /// Keeps a loaded model in the memory of a GPU: no load evicts it, until
    /// [`observe_memory`](Self::observe_memory) finds it gone or the GPU is lost. So the owner keeps an
    /// instance alive, or the prefix of a model. Returns false if the model is not there.
    pub fn hold_model(&mut self, gpu: GpuId, model: ModelId) -> bool {
        let state = self.pool.gpu_mut(gpu);
        state.is_some_and(|state| state.memory.hold(model))
    }

    /// Notes that the executor of a GPU does not answer. It gets nothing until
    /// [`restore_gpu`](Self::restore_gpu), and its memory counts as empty. Requests of its local queue
    /// wait for any GPU again. The running request stays there: its own end shows whether it was
    /// served.
    pub fn suspend_gpu(&mut self, gpu: GpuId) {
        let Some(state) = self.pool.gpu_mut(gpu) else {
            return;
        };
        state.available = false;
        state.memory.observe(0, &[]);
        for waited in std::mem::take(&mut state.local) {
            self.queue.push(waited.request, waited.overtaken);
        }
    }

    /// Returns true if the GPU gets requests.
    pub fn is_available(&self, gpu: GpuId) -> bool {
        self.pool.gpu(gpu).is_some_and(|state| state.available)
    }
}
