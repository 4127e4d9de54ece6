//! A thread for each device: it creates and releases chunks and copies objects, in the order of the
//! admissions.
//!
//! The order matters: memory that one admission counts as free may still have to be released for an
//! earlier one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};

use super::check::Checker;
use super::core::Core;
use super::jobs::{Job, Load};
use super::state::Physical;
use crate::arena::ChunkId;
use crate::copy::{CopyError, Executor, TransferPlan};
use crate::memory::{DeviceMemory, MemoryError, Protection};
use crate::protocol::Reason;
use crate::residency::{DeviceId, Released};

/// The thread of a device.
pub(super) struct Worker<D: DeviceMemory> {
    pub core: Arc<Core<D>>,
    pub id: DeviceId,
    pub device: Arc<D>,
    pub executor: Executor<D>,
    pub group_bytes: u64,
    /// Checks of the device's bytes.
    pub checker: Checker,
}

impl<D: DeviceMemory> Worker<D> {
    /// Runs all jobs, until no sender is left.
    pub fn run(mut self, jobs: &Receiver<Job>) {
        while let Some(job) = self.next(jobs) {
            match job {
                Job::Free(released) => self.free(&released),
                Job::Load(load) => self.load(&load),
                Job::Check => self.check(),
            }
        }
    }

    /// Waits for the next job. Meanwhile checks objects on the device.
    fn next(&mut self, jobs: &Receiver<Job>) -> Option<Job> {
        loop {
            self.check_piece();
            let Some(wait) = self.checker.until_due() else {
                return jobs.recv().ok();
            };
            match jobs.recv_timeout(wait) {
                Ok(job) => return Some(job),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return None,
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
                let names = released.iter().map(|one| (one.tenant, one.chunk));
                let taken = names.filter_map(|name| Some((name, chunks.remove(&name)?)));
                taken.collect()
            })
        };
        // Outside the lock, because the driver may be slow.
        for (name, physical) in taken {
            let (bytes, importers) = (physical.bytes, physical.importers.clone());
            let kept = !importers.is_empty() && !self.reclaim(physical);
            if kept && importers.iter().any(|importer| !importer.has_gone()) {
                self.core.state().linger(self.id, name, bytes, importers);
            }
        }
    }

    /// Drops a chunk that clients had. Returns true if its memory is free.
    fn reclaim(&self, physical: Physical<D>) -> bool {
        let Physical { chunk, mapping, .. } = physical;
        // Another thread may be about to pass it to a client that is gone.
        let own = (Arc::try_unwrap(chunk), Arc::try_unwrap(mapping));
        let (Ok(chunk), Ok(mapping)) = own else {
            return false;
        };
        let freed = self.device.reclaim(chunk, mapping);
        freed.unwrap_or_else(|error| {
            tracing::warn!(%error, device = %self.id, "it is not known whether device memory is free");
            false
        })
    }

    /// Checks the next piece of an object, if it is due.
    pub fn check_piece(&mut self) {
        if self.core.state().lost(Some(self.id)).is_some() {
            return;
        }
        match self.checker.step(&self.core, self.id, &*self.device) {
            Ok(None) => {}
            Ok(Some(damaged)) => self.core.damaged(self.id, damaged),
            Err(error) => {
                tracing::warn!(%error, device = %self.id, "an object on a device could not be read back");
                self.check();
            }
        }
    }

    fn load(&mut self, load: &Load) {
        if self.core.give_up_unwanted(self.id, load) {
            return;
        }
        let done = self.create(load).map_err(CopyError::from);
        let done = done.and_then(|()| self.copy(load));
        self.core.count_registrations(self.executor.registrar());
        if load.sources.pool().is_closed() {
            self.core.unpin(load.sources.pool());
        }
        match done {
            Ok(()) => self.core.state().loaded(),
            Err(error) => {
                self.fail(load, &error);
                self.check();
            }
        }
    }

    /// Gives up the device if the driver cannot even report its memory. Errors of a context are
    /// sticky: every later call in this process returns them.
    fn check(&self) {
        if let Some(slot) = self.core.state().devices.get_mut(&self.id) {
            slot.checking = None;
        }
        if self.core.state().lost(Some(self.id)).is_some() {
            return;
        }
        if let Err(error) = self.device.info() {
            tracing::error!(%error, device = %self.id, "a device is lost: no model is copied to it until the daemon is restarted");
            self.core.lose(self.id, &error);
        }
    }

    fn fail(&self, load: &Load, error: &CopyError) {
        tracing::warn!(%error, device = %self.id, "a model could not be copied to a device");
        self.core.metrics.failed_transfers.one();
        let why = (reason(error), error.to_string());
        self.core.failed(self.id, load, &why);
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
        for (name, bytes) in absent {
            let chunk = self.device.create(bytes)?;
            let range = self.device.reserve(bytes)?;
            let mapping = self.device.map(range, &chunk, Protection::ReadWrite)?;
            // Clients get it before the copies are done (C5).
            self.device.clear(&mapping)?;
            self.core.metrics.cleared_bytes.add(bytes);
            let physical = Physical {
                chunk: Arc::new(chunk),
                mapping: Arc::new(mapping),
                bytes,
                importers: Vec::new(),
            };
            self.core.metrics.chunks_created.one();
            if let Some(slot) = self.core.state().devices.get_mut(&self.id) {
                slot.chunks.insert((load.tenant, name), physical);
            }
        }
        self.core.state().created(self.id, load.tenant);
        Ok(())
    }

    fn copy(&mut self, load: &Load) -> Result<(), CopyError> {
        let plan = TransferPlan::new(&load.copies, self.group_bytes);
        let targets = self.targets(load);
        let (core, id) = (Arc::clone(&self.core), self.id);
        let report = self.executor.run(
            &plan,
            &|object| load.sources.get(object, id),
            &targets,
            &mut |object| core.arrived(id, load.tenant, &object),
        )?;
        core.metrics.direct_bytes.add(report.direct_bytes);
        core.metrics.staged_bytes.add(report.staged_bytes);
        Ok(())
    }

    fn targets(&self, load: &Load) -> BTreeMap<ChunkId, Arc<D::Mapping>> {
        let state = self.core.state();
        let chunks = state.devices.get(&self.id).map(|slot| &slot.chunks);
        let chunks = chunks.into_iter().flatten();
        let own = chunks.filter(|((tenant, _), _)| *tenant == load.tenant);
        own.map(|((_, chunk), physical)| (*chunk, Arc::clone(&physical.mapping)))
            .collect()
    }
}

/// Converts an error into a reason for clients.
fn reason(error: &CopyError) -> Reason {
    match error {
        CopyError::Memory(MemoryError::OutOfMemory { .. }) => Reason::DEVICE_FULL,
        CopyError::NoSource { .. } => Reason::MISSING,
        _ => Reason::COPY_FAILED,
    }
}
