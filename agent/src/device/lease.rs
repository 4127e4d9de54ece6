//! A model that the mirror holds for this process, mapped here.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tetris_gpu_client::{Arrivals, ClientError, OnDevice};
use tetris_gpu_device::MemoryKind;
use tetris_gpu_device::StreamHandle;
use tetris_gpu_protocol::Kept;
use tetris_store_layout::{ObjectId, ObjectRef};

use super::held::Held;
use super::{DeviceError, Location};
use crate::detached::DetachedTensor;

/// All objects of a model in device memory. Its drop has them unmapped, and the mirror may then evict
/// them.
#[derive(Debug)]
pub(super) struct Lease {
    held: Vec<Box<dyn Held>>,
    /// Waits of streams, for each of `held`.
    /// Waits on streams; `None` for objects that no stream can wait for.
    arrivals: Vec<Option<Arrivals>>,
    location: Location,
    /// For each object: its index in `held`, and its address.
    index: HashMap<ObjectId, (usize, OnDevice)>,
    /// Id of the process that may use the connection and the driver. A forked child has a copy of
    /// this value.
    process: u32,
    /// Set once, when every object has arrived.
    complete: AtomicBool,
    /// References to the objects in the store, held until every object has arrived.
    host: Mutex<Vec<DetachedTensor>>,
}

impl Lease {
    /// Combines the parts in `held`, which must contain all of `objects` with their lengths,
    /// because tensors are addresses in them.
    pub(super) fn new(
        held: Vec<Box<dyn Held>>,
        location: Location,
        objects: &[ObjectRef],
        host: Vec<DetachedTensor>,
    ) -> Result<Self, DeviceError> {
        let mut index = HashMap::with_capacity(objects.len());
        for (at, part) in held.iter().enumerate() {
            index.extend(part.objects().iter().map(|part| (part.id, (at, *part))));
        }
        for object in objects {
            let indexed = index.get(&object.id);
            if indexed.is_none_or(|(_, indexed)| indexed.len != object.len) {
                let expected = "a place for every object, as long as it is";
                return Err(ClientError::Unexpected { expected }.into());
            }
        }
        Ok(Self {
            complete: AtomicBool::new(held.is_empty()),
            arrivals: held.iter().map(|held| held.arrivals()).collect(),
            held,
            location,
            index,
            process: std::process::id(),
            host: Mutex::new(host),
        })
    }

    /// Simulates a forked child.
    #[cfg(test)]
    pub(super) fn become_a_children(&mut self) {
        self.process = 0;
    }

    pub(super) fn location(&self) -> Location {
        self.location
    }

    /// Device address of an object.
    pub(super) fn address(&self, id: &ObjectId) -> Option<u64> {
        self.index.get(id).map(|(_, object)| object.address)
    }

    pub(super) fn mapped_bytes(&self) -> u64 {
        self.held.iter().map(|held| held.mapped_bytes()).sum()
    }

    /// Length of the objects, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.index.values().map(|(_, object)| object.len).sum()
    }

    /// Length of the objects that have arrived, in bytes.
    pub(super) fn resident_bytes(&self) -> Result<u64, DeviceError> {
        let mut bytes = 0;
        for (id, (_, object)) in &self.index {
            if self.wait(Some(id), Duration::ZERO)? {
                bytes += object.len;
            }
        }
        Ok(bytes)
    }

    /// Returns true if another load of the same objects may share it.
    pub(super) fn is_usable(&self) -> bool {
        let ours = self.is_ours() && self.check().is_ok();
        ours && (self.is_complete() || self.held.iter().all(|held| held.is_held()))
    }

    fn is_ours(&self) -> bool {
        self.process == std::process::id()
    }

    pub(super) fn is_complete(&self) -> bool {
        self.complete.load(Ordering::Acquire)
    }

    /// Checks that this process may use the memory.
    fn check(&self) -> Result<(), DeviceError> {
        if !self.is_ours() {
            return match self.location {
                Location::Cuda(_) => Err(forked("in CUDA's memory, which no child has")),
                Location::Simulated if self.is_complete() => Ok(()),
                Location::Simulated => Err(forked("still arriving, which only the parent sees")),
            };
        }
        let mut parts = self.held.iter();
        if parts.all(|part| part.kind() != MemoryKind::CudaHandles || part.is_held()) {
            Ok(())
        } else {
            Err(DeviceError::Ended)
        }
    }

    /// Waits at most `limit` until an object has arrived, or all objects have; returns false at the
    /// limit.
    pub(super) fn wait(&self, id: Option<&ObjectId>, limit: Duration) -> Result<bool, DeviceError> {
        self.check()?;
        if self.is_complete() {
            return Ok(true);
        }
        if let Some(id) = id {
            let at = self.index.get(id).map(|(at, _)| *at);
            let part = at.and_then(|at| self.held.get(at));
            let part_of_object = part.ok_or(ClientError::NoObject(*id))?;
            return Ok(part_of_object.wait(Some(id), limit)?);
        }
        let begun = Instant::now();
        for held in &self.held {
            if !held.wait(None, limit.saturating_sub(begun.elapsed()))? {
                return Ok(false);
            }
        }
        self.complete.store(true, Ordering::Release);
        self.let_go_of_host();
        Ok(true)
    }

    /// Has a stream wait for an object. Returns false if that has arrived already.
    pub(super) fn wait_on_stream(
        &self,
        id: &ObjectId,
        stream: StreamHandle,
    ) -> Result<bool, DeviceError> {
        self.check()?;
        let at = self.index.get(id).map(|(at, _)| *at);
        let arrival =
            at.and_then(|at| Some((self.held.get(at)?, self.arrivals.get(at)?.as_ref()?)));
        let (held, arrivals) = arrival.ok_or(ClientError::NoObject(*id))?;
        held.wait_mapped(id)?;
        if self.is_complete() || held.wait(Some(id), Duration::ZERO)? {
            return Ok(false);
        }
        held.wait_on_stream(id, stream, arrivals)?;
        Ok(true)
    }

    /// Waits at most `limit` until every object has arrived for which a stream waits.
    pub(super) fn check_streams(&self, limit: Duration) -> Result<(), DeviceError> {
        self.check()?;
        let begun = Instant::now();
        for arrivals in self.arrivals.iter().flatten() {
            arrivals.check(limit.saturating_sub(begun.elapsed()))?;
        }
        Ok(())
    }

    /// Asks the mirror to keep a prefix of the model. Returns the sums over all connections.
    pub(super) fn keep(&self, ttft: Duration, most_bytes: u64) -> Result<Kept, DeviceError> {
        self.check()?;
        let (mut sum, mut left) = (Kept::default(), most_bytes);
        for held in &self.held {
            // A prefix of the first part only, unless the whole part is kept.
            let kept = held.keep(ttft, left)?;
            sum.prefix_bytes += kept.prefix_bytes;
            sum.bytes_per_sec = sum.bytes_per_sec.max(kept.bytes_per_sec);
            left = left.saturating_sub(kept.prefix_bytes);
        }
        Ok(sum)
    }

    /// Drops the references in the store, once every object has arrived or some never will.
    pub(super) fn let_go_of_host(&self) {
        let host = std::mem::take(&mut *self.host.lock().unwrap_or_else(PoisonError::into_inner));
        drop(host);
    }

    /// Copies from an object that has arrived.
    pub(super) fn read(&self, id: &ObjectId, begin: u64, to: &mut [u8]) -> Result<(), DeviceError> {
        self.check()?;
        let at = self.index.get(id).map(|(at, _)| *at);
        let part = at.and_then(|at| self.held.get(at));
        let part_of_object = part.ok_or(ClientError::NoObject(*id))?;
        Ok(part_of_object.read(id, begin, to)?)
    }
}

fn forked(state: &'static str) -> DeviceError {
    DeviceError::Forked { state }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let ours = self.is_ours();
        for held in self.held.drain(..) {
            match self.location {
                // Forked children cannot use the memory, but share the connection. The thread here
                // may hold a lock, such as Python's, and the device may take long.
                Location::Cuda(_) if ours => held.let_go(),
                Location::Cuda(_) => held.abandon(),
                // The connection of each process holds the memory that the process still maps.
                Location::Simulated => drop(held),
            }
        }
    }
}
