//! A thread for each device: it creates and releases chunks, in the order of the admissions, and hands
//! loads on to the thread that copies. In between it makes spare chunks (`spares`).
//!
//! The order matters: memory that one admission counts as free may still have to be released for an
//! earlier one. Copies have their own thread, so that a client gets its chunks while others'
//! objects are being copied.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::time::{Duration, Instant};

use super::chunk::{ChunkName, Physical};
use super::core::Core;
use super::jobs::{Job, Load};
use crate::arena::ChunkId;
use crate::residency::{DeviceId, Released, TenantId};
use tetris_gpu_device::{DeviceMemory, MemoryError, Protection};

/// First pause before a chunk is tried again; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
/// Longest pause.
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// Time for which other threads of the server may go on with a released chunk: that of some groups.
const LETTING_GO: Duration = Duration::from_secs(2);
/// Pause before the next look.
const LETTING_GO_PAUSE: Duration = Duration::from_millis(1);

/// Takes a value out once no other thread has it; `None` if one keeps it for [`LETTING_GO`].
fn sole<T>(mut shared: Arc<T>) -> Option<T> {
    let end = Instant::now() + LETTING_GO;
    loop {
        match Arc::try_unwrap(shared) {
            Ok(own) => return Some(own),
            Err(again) if Instant::now() < end => shared = again,
            Err(_) => return None,
        }
        std::thread::sleep(LETTING_GO_PAUSE);
    }
}

/// The thread that creates a device's chunks.
pub(super) struct Maker<D: DeviceMemory> {
    pub core: Arc<Core<D>>,
    pub id: DeviceId,
    pub device: Arc<D>,
    /// Time for which it asks a full device for memory: that of a killed process comes late.
    pub patience: Duration,
}

/// A chunk of a load, and its length in bytes.
type Made<D> = (<D as DeviceMemory>::Chunk, <D as DeviceMemory>::Mapping);

impl<D: DeviceMemory> Maker<D> {
    /// Runs all jobs, until no sender is left. Loads and checks go on to `copier`.
    pub fn run(self, jobs: &Receiver<Job>, copier: &Sender<Job>) {
        while let Some(job) = self.next(jobs) {
            let next = match job {
                Job::Free(released) => {
                    let begun = Instant::now();
                    self.during(|| self.free(&released));
                    tracing::debug!(device = %self.id, chunks = released.len(), took = ?begun.elapsed(), "released");
                    None
                }
                Job::Leave(tenant) => {
                    self.during(|| self.leave(tenant));
                    None
                }
                Job::Load(load) => self.load(load).map(Job::Load),
                Job::Check => {
                    self.during(|| self.core.follow(self.id, &self.device));
                    Some(Job::Check)
                }
            };
            if let Some(job) = next {
                // The other thread ends after this one.
                let _sent = copier.send(job);
            }
        }
    }

    /// Waits for the next job. Meanwhile clears and makes spare chunks.
    fn next(&self, jobs: &Receiver<Job>) -> Option<Job> {
        loop {
            match jobs.try_recv() {
                Ok(job) => return Some(job),
                Err(TryRecvError::Disconnected) => return None,
                Err(TryRecvError::Empty) if self.clear_spare() || self.make_spare() => {}
                // More memory is free after another job, if at all.
                Err(TryRecvError::Empty) => return jobs.recv().ok(),
            }
        }
    }

    /// Makes a spare chunk, if one is wanted and there is memory for it. Returns true if it did.
    pub fn make_spare(&self) -> bool {
        let bytes = {
            let mut state = self.core.state();
            let Some(bytes) = state.next_spare(self.id) else {
                return false;
            };
            state.makes(self.id, bytes);
            bytes
        };
        let made = self.attempt(bytes).map(|made| self.physical(made, bytes));
        self.core.state().made(self.id);
        match made {
            Ok(physical) => self.core.spare(self.id, physical, None).is_ok(),
            Err(error) => {
                tracing::debug!(%error, device = %self.id, "no spare chunk for now");
                self.core.follow(self.id, &self.device);
                false
            }
        }
    }

    /// Does `work`, which the driver may delay for any time.
    fn during<T>(&self, work: impl FnOnce() -> T) -> T {
        self.core.state().begins(self.id, true);
        let done = work();
        self.core.state().begins(self.id, false);
        done
    }

    /// Creates a load's chunks. Returns the load if its objects are to be copied.
    fn load(&self, load: Load) -> Option<Load> {
        if self.core.give_up_unwanted(self.id, &load) {
            return None;
        }
        let begun = Instant::now();
        match self.during(|| self.create(&load)) {
            Ok(()) => {
                tracing::debug!(device = %self.id, load = load.number, took = ?begun.elapsed(), "chunks are there");
                Some(load)
            }
            Err(error) => {
                self.core.fail(self.id, &load, &error.into());
                self.core.check(self.id, &self.device);
                None
            }
        }
    }

    /// Releases chunks. The driver frees their memory when the last client has unmapped it; until
    /// then it counts.
    fn free(&self, released: &[Released]) {
        let taken: Vec<_> = {
            let mut state = self.core.state();
            let slot = state.devices.get_mut(&self.id);
            let chunks = slot.map(|slot| &mut slot.chunks);
            chunks.map_or_else(Vec::new, |chunks| {
                let names = released
                    .iter()
                    .map(|released| (released.tenant, released.chunk));
                let taken = names.filter_map(|name| Some((name, chunks.remove(&name)?)));
                taken.collect()
            })
        };
        // Outside the lock, because the driver may be slow.
        for (name, physical) in taken {
            if let Err(physical) = self.keep(name, physical) {
                self.discard(Some(name), physical);
            }
        }
    }

    /// Keeps a chunk without objects as a spare of its tenant, or returns it.
    fn keep(&self, name: ChunkName, physical: Physical<D>) -> Result<(), Physical<D>> {
        self.core.spare(self.id, physical, Some(name))
    }

    /// Clears a spare that no client had, for any tenant. Returns true if there was one. Not when it is
    /// released: a load may wait for its own tenant's chunk.
    fn clear_spare(&self) -> bool {
        let spare = self.core.state().unclear_spare(self.id);
        let Some(found) = spare else {
            return false;
        };
        if let Some(physical) = self.during(|| self.cleared(found))
            && let Err(physical) = self.core.spare(self.id, physical, None)
        {
            self.discard(None, physical);
        }
        true
    }

    /// Clears a chunk, or drops it.
    fn cleared(&self, (physical, name): (Physical<D>, ChunkName)) -> Option<Physical<D>> {
        // It counts, as one that is created.
        let (state, bytes) = (|| self.core.state(), physical.bytes);
        state().makes(self.id, bytes);
        let cleared = self.device.clear(&physical.mapping);
        state().made_within(self.id);
        match cleared {
            Ok(()) => Some(physical),
            Err(error) => {
                tracing::debug!(%error, device = %self.id, "a chunk could not be cleared");
                self.discard(Some(name), physical);
                self.core.check(self.id, &self.device);
                None
            }
        }
    }

    /// Drops a chunk. Its memory counts as long as a process keeps it.
    fn discard(&self, name: Option<ChunkName>, physical: Physical<D>) {
        let (bytes, importers) = (physical.bytes, physical.importers.clone());
        let kept = !importers.is_empty() && !self.reclaim(physical);
        if kept
            && importers.iter().any(|importer| !importer.has_gone())
            && let Some(name) = name
        {
            self.core.state().linger(self.id, name, bytes, importers);
        }
    }

    /// Drops the spares that only a tenant may get, which has left.
    fn leave(&self, tenant: TenantId) {
        let spares = self.core.state().spares_of(self.id, tenant);
        for (physical, name) in spares {
            self.discard(name, physical);
        }
    }

    /// Drops spares whose memory `tenant` needs, or all. Returns true if there were any.
    fn drop_spares(&self, tenant: TenantId, all: bool) -> bool {
        let mut any = false;
        loop {
            let excess = self.core.state().excess_spare(self.id, Some(tenant), all);
            let Some((physical, name)) = excess else {
                return any;
            };
            any = true;
            self.discard(name, physical);
        }
    }

    /// Drops a chunk that clients had. Returns true if its memory is free.
    fn reclaim(&self, physical: Physical<D>) -> bool {
        let Physical { chunk, mapping, .. } = physical;
        // The thread that copies, a check, or one that passes it to a client that is gone may still
        // have it. Without a wait its memory would count until the clients' processes end.
        let (Some(chunk), Some(mapping)) = (sole(chunk), sole(mapping)) else {
            return false;
        };
        let freed = self.device.reclaim(chunk, mapping);
        freed.unwrap_or_else(|error| {
            tracing::warn!(%error, device = %self.id, "it is not known whether device memory is free");
            false
        })
    }

    /// Creates the chunks that the load needs and that do not exist: its own, and those of an
    /// earlier load that was given up.
    fn create(&self, load: &Load) -> Result<(), MemoryError> {
        let absent = {
            let mut state = self.core.state();
            state.sweep();
            let excess = state.manager.excess_bytes(self.id, load.tenant);
            let absent = state.absent_chunks(self.id, load);
            if excess > 0 && !absent.is_empty() {
                let usage = state.manager.usage(self.id).unwrap_or_default();
                return Err(MemoryError::OutOfMemory {
                    asked_bytes: absent.values().sum(),
                    free_bytes: absent.values().sum::<u64>().saturating_sub(excess),
                    total_bytes: usage.capacity_bytes,
                });
            }
            absent
        };
        let absent = self.without_spares(load, absent);
        let mut pressed = false;
        for (name, bytes) in absent {
            self.core.metrics.awaited_chunks.one();
            self.drop_spares(load.tenant, false);
            self.core.state().makes(self.id, bytes);
            let made = self.make(bytes, load.tenant, &mut pressed);
            let made = made.map(|made| self.physical(made, bytes));
            let mut state = self.core.state();
            state.made_within(self.id);
            match (made, state.devices.get_mut(&self.id)) {
                (Ok(physical), Some(slot)) => {
                    slot.chunks.insert((load.tenant, name), physical);
                }
                (Ok(_), None) => {}
                (Err(error), _) => {
                    drop(state);
                    self.core.follow(self.id, &self.device);
                    return Err(error);
                }
            }
        }
        if pressed {
            self.core.follow(self.id, &self.device);
        }
        self.core.state().created(self.id, load.tenant);
        Ok(())
    }

    /// Gives the load spares for its chunks. Returns those that no spare fits.
    fn without_spares(
        &self,
        load: &Load,
        mut absent: BTreeMap<ChunkId, u64>,
    ) -> BTreeMap<ChunkId, u64> {
        absent.retain(|name, bytes| {
            let Some(physical) = self.spare_for(load.tenant, *bytes) else {
                return true;
            };
            if let Some(slot) = self.core.state().devices.get_mut(&self.id) {
                slot.chunks.insert((load.tenant, *name), physical);
                self.core.metrics.spares_used.one();
            }
            false
        });
        absent
    }

    /// Takes a spare of this length for `tenant`: the tenant's, or a common one; else clears another tenant's.
    fn spare_for(&self, tenant: TenantId, bytes: u64) -> Option<Physical<D>> {
        let unclear = {
            let mut state = self.core.state();
            let spares = &mut state.devices.get_mut(&self.id)?.spares;
            if let Some(physical) = spares.take(tenant, bytes) {
                return Some(physical);
            }
            spares.take_unclear(Some(bytes))?
        };
        self.cleared(unclear)
    }

    fn physical(&self, (chunk, mapping): Made<D>, bytes: u64) -> Physical<D> {
        self.core.metrics.cleared_bytes.add(bytes);
        self.core.metrics.chunks_created.one();
        Physical {
            chunk: Arc::new(chunk),
            mapping: Arc::new(mapping),
            bytes,
            importers: Vec::new(),
        }
    }

    /// Creates a chunk. If other programs have the memory: tries for some time, then drops idle
    /// models, then returns the error. Spares go before all that. Sets `pressed` if idle models left.
    fn make(
        &self,
        bytes: u64,
        tenant: TenantId,
        pressed: &mut bool,
    ) -> Result<Made<D>, MemoryError> {
        match self.attempt(bytes) {
            Err(MemoryError::OutOfMemory { .. }) => self.drop_spares(tenant, true),
            made => return made,
        };
        let error = match self.patiently(bytes) {
            Err(error @ MemoryError::OutOfMemory { .. }) => error,
            made => return made,
        };
        if !self.shrink(bytes)? {
            return Err(error);
        }
        *pressed = true;
        // Clients may still be unmapping what the models had.
        self.patiently(bytes)
    }

    fn patiently(&self, bytes: u64) -> Result<Made<D>, MemoryError> {
        let end = Instant::now() + self.patience;
        let mut pause = FIRST_PAUSE;
        loop {
            match self.attempt(bytes) {
                Err(MemoryError::OutOfMemory { .. }) if Instant::now() < end => {}
                made => return made,
            }
            self.core.metrics.retried_chunks.one();
            // The driver answers: clients wait in turn.
            self.core.state().begins(self.id, true);
            std::thread::sleep(pause);
            pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
        }
    }

    fn attempt(&self, bytes: u64) -> Result<Made<D>, MemoryError> {
        let chunk = self.device.create(bytes)?;
        let range = self.device.reserve(bytes)?;
        let mapping = self.device.map(range, &chunk, Protection::ReadWrite)?;
        // Clients get it before the copies are done (C5).
        self.device.clear(&mapping)?;
        Ok((chunk, mapping))
    }

    /// Evicts idle models for the memory missing for a chunk. Returns true if any memory was
    /// released.
    fn shrink(&self, bytes: u64) -> Result<bool, MemoryError> {
        let free = self.device.info()?.free_bytes;
        // A device can refuse memory that it reports as free, such as for its page tables.
        let missing = bytes.checked_sub(free).filter(|missing| *missing > 0);
        let released = self.core.shrink(self.id, missing.unwrap_or(bytes));
        self.free(&released);
        Ok(!released.is_empty())
    }
}
