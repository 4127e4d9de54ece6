//! A model that this process holds at the mirror, mapped here.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tetris_gpu_mirror::client::{ClientError, OnDevice};
use tetris_gpu_mirror::memory::MemoryKind;
use tetris_store_layout::{ObjectId, ObjectRef};

use super::held::Held;
use super::{DeviceError, Location};
use crate::foreign::DetachedTensor;

/// All objects of a model in device memory. Dropping it unmaps them, and lets the mirror evict them.
#[derive(Debug)]
pub(super) struct Lease {
    held: Vec<Box<dyn Held>>,
    location: Location,
    /// By object: which of `held` has it, and where it is.
    index: HashMap<ObjectId, (usize, OnDevice)>,
    /// Who may talk to the mirror, and call the driver. A child of a fork has a copy of this value.
    process: u32,
    /// Set once, when everything has arrived.
    complete: AtomicBool,
    /// The objects' references in the store, until then.
    host: Mutex<Vec<DetachedTensor>>,
}

impl Lease {
    /// What `held` has of `objects`, which has to be all of them, in their lengths: tensors are addresses there.
    pub(super) fn new(
        held: Vec<Box<dyn Held>>,
        location: Location,
        objects: &[ObjectRef],
        host: Vec<DetachedTensor>,
    ) -> Result<Self, DeviceError> {
        let mut index = HashMap::with_capacity(objects.len());
        for (at, part) in held.iter().enumerate() {
            index.extend(part.objects().iter().map(|one| (one.id, (at, *one))));
        }
        for object in objects {
            let found = index.get(&object.id);
            if found.is_none_or(|(_, found)| found.len != object.len) {
                let expected = "a place for every object, as long as it is";
                return Err(ClientError::Unexpected { expected }.into());
            }
        }
        Ok(Self {
            complete: AtomicBool::new(held.is_empty()),
            held,
            location,
            index,
            process: std::process::id(),
            host: Mutex::new(host),
        })
    }

    /// As a child of a fork finds it.
    #[cfg(test)]
    pub(super) fn become_a_childs(&mut self) {
        self.process = 0;
    }

    pub(super) fn location(&self) -> Location {
        self.location
    }

    /// The device address of an object.
    pub(super) fn address(&self, id: &ObjectId) -> Option<u64> {
        self.index.get(id).map(|(_, object)| object.address)
    }

    pub(super) fn mapped_bytes(&self) -> u64 {
        self.held.iter().map(|held| held.mapped_bytes()).sum()
    }

    /// Bytes of the objects.
    pub(super) fn bytes(&self) -> u64 {
        self.index.values().map(|(_, object)| object.len).sum()
    }

    /// Bytes of the objects that have arrived.
    pub(super) fn resident_bytes(&self) -> Result<u64, DeviceError> {
        let mut bytes = 0;
        for (id, (_, object)) in &self.index {
            if self.wait(Some(id), Duration::ZERO)? {
                bytes += object.len;
            }
        }
        Ok(bytes)
    }

    /// Whether another load of the same objects may use it.
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

    /// Whether the memory may be used at all.
    fn check(&self) -> Result<(), DeviceError> {
        if !self.is_ours() {
            return match self.location {
                Location::Cuda(_) => Err(forked("in CUDA's memory, which no child has")),
                Location::StandIn if self.is_complete() => Ok(()),
                Location::StandIn => Err(forked("still arriving, which only the parent sees")),
            };
        }
        let mut held = self.held.iter();
        if held.all(|held| held.kind() != MemoryKind::CudaHandles || held.is_held()) {
            Ok(())
        } else {
            Err(DeviceError::Ended)
        }
    }

    /// Waits until an object, or all of them, have arrived; returns whether that is so.
    pub(super) fn wait(&self, id: Option<&ObjectId>, limit: Duration) -> Result<bool, DeviceError> {
        self.check()?;
        if self.is_complete() {
            return Ok(true);
        }
        if let Some(id) = id {
            let at = self.index.get(id).map(|(at, _)| *at);
            let held = at.and_then(|at| self.held.get(at));
            let held = held.ok_or(ClientError::NoObject(*id))?;
            return Ok(held.wait(Some(id), limit)?);
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

    /// Drops the references in the store: everything has arrived, or never will.
    pub(super) fn let_go_of_host(&self) {
        let host = std::mem::take(&mut *self.host.lock().unwrap_or_else(PoisonError::into_inner));
        drop(host);
    }

    /// Copies from an object that has arrived.
    pub(super) fn read(&self, id: &ObjectId, begin: u64, to: &mut [u8]) -> Result<(), DeviceError> {
        self.check()?;
        let at = self.index.get(id).map(|(at, _)| *at);
        let held = at.and_then(|at| self.held.get(at));
        let held = held.ok_or(ClientError::NoObject(*id))?;
        Ok(held.read(id, begin, to)?)
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
                // Children cannot use it, and have the connection all the same.
                Location::Cuda(_) if ours => held.hang_up(),
                Location::Cuda(_) => held.abandon(),
                // Each process's end of the connection holds the memory that it still maps.
                Location::StandIn => drop(held),
            }
        }
    }
}
