//! Chunks for a model on the device, and the sources of its bytes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tetris_gpu_device::{HostSlice, Mapped, Protection};
use tetris_gpu_server::arena::{Arena, ChunkId};
use tetris_gpu_server::copy::{Executor, Report, StorePages, TransferPlan};
use tetris_gpu_server::residency::Copy;
use tetris_store_layout::{ObjectId, Store};

use super::TransfersJob;
use crate::BenchError;
use crate::backend::Backend;
use crate::role::serve::arena;

/// Chunks with positions for a model, as in the mirror, and the bytes for them.
pub(super) struct Target<D: Backend> {
    device: Arc<D>,
    plan: TransferPlan,
    chunks: BTreeMap<ChunkId, Arc<D::Mapping>>,
    sources: BTreeMap<ObjectId, HostSlice>,
    /// Pinned memory as long as the model.
    pinned: HostSlice,
    stream: Mutex<D::Stream>,
}

impl<D: Backend> Target<D> {
    pub fn new(device: Arc<D>, store: &Store, job: &TransfersJob) -> Result<Self, BenchError> {
        let objects = job.model.tensors.iter().map(|tensor| tensor.object);
        let wanted: Vec<_> = objects.map(|object| (object.id, object.len)).collect();
        let placement = Arena::new(arena(job.chunk_bytes)?).place(&wanted, u64::MAX);
        let placement = placement.map_err(|error| BenchError::Bug(error.to_string()))?;
        let places = wanted.iter().zip(&placement.places);
        let copies = places.map(|((object, _), place)| Copy {
            object: *object,
            place: *place,
        });
        let plan = TransferPlan::new(&copies.collect::<Vec<_>>(), job.group_bytes);
        let mut chunks = BTreeMap::new();
        for new in &placement.created {
            let chunk = device.create(new.bytes)?;
            let range = device.reserve(new.bytes)?;
            let mapping = device.map(range, &chunk, Protection::ReadWrite)?;
            chunks.insert(new.id, Arc::new(mapping));
        }
        let pinned = device.pinned(job.model.bytes() as usize)?;
        let stream = Mutex::new(device.stream()?);
        let sources = sources(device.as_ref(), store, job)?;
        Ok(Self {
            device,
            plan,
            chunks,
            sources,
            pinned: HostSlice::whole(Arc::new(pinned)),
            stream,
        })
    }

    /// Copies the model like the mirror, from pages that stay mapped and registered.
    pub fn load(&self, executor: &mut Executor<D>) -> Result<Report, BenchError> {
        self.load_from(executor, &self.sources)
    }

    /// Copies the model like [`Self::load`], from new mappings that it drops again.
    pub fn load_mapping(
        &self,
        executor: &mut Executor<D>,
        store: &Store,
        job: &TransfersJob,
    ) -> Result<(), BenchError> {
        let sources = sources(self.device.as_ref(), store, job)?;
        self.load_from(executor, &sources).map(|_| ())
    }

    fn load_from(
        &self,
        executor: &mut Executor<D>,
        sources: &BTreeMap<ObjectId, HostSlice>,
    ) -> Result<Report, BenchError> {
        let source = |id: &ObjectId| sources.get(id).cloned();
        Ok(executor.run(&self.plan, &source, &self.chunks, &mut |_| {})?)
    }

    /// Copies as many bytes from pinned memory to the same chunks, with one call for each chunk.
    pub fn copy_pinned(&self) -> Result<(), BenchError> {
        let mut stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        let total = self.pinned.bytes().len() as u64;
        let mut at = 0;
        for chunk in self.chunks.values() {
            let len = chunk.bytes().min(total - at);
            self.device
                .copy_in(&mut stream, chunk, 0, self.pinned.part(at, len)?)?;
            at += len;
        }
        Ok(self.device.synchronize(&mut stream)?)
    }
}

/// Maps the model's objects like the server does for this device.
fn sources<D: Backend>(
    device: &D,
    store: &Store,
    job: &TransfersJob,
) -> Result<BTreeMap<ObjectId, HostSlice>, BenchError> {
    let access = StorePages::access(&device.capabilities());
    let mut sources = BTreeMap::new();
    for tensor in &job.model.tensors {
        let mapping = store.map(&tensor.object, access)?;
        let mapping = mapping.ok_or(BenchError::NoObject(tensor.object.id))?;
        let pages = StorePages::new(Arc::new(mapping));
        sources.insert(tensor.object.id, HostSlice::whole(Arc::new(pages)));
    }
    Ok(sources)
}
