//! One thread for each device: it makes and releases chunks and copies, in the order of the admissions that ask for it.
//!
//! Order matters: what one admission counts as free, an earlier one may still have to release.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use super::core::Core;
use super::source::Sources;
use super::state::Physical;
use crate::arena::ChunkId;
use crate::copy::{CopyError, Executor, TransferPlan};
use crate::memory::{DeviceMemory, MemoryError, Protection};
use crate::protocol::Reason;
use crate::residency::{Copy, DeviceId, Released, TenantId};

/// What a worker does.
#[derive(Debug)]
pub(super) enum Job {
    /// Chunks in which nothing is left.
    Free(Vec<Released>),
    /// Objects that are to be copied.
    Load(Load),
    /// Does the device still work?
    Check,
}

/// Objects that are to be copied.
#[derive(Debug)]
pub(super) struct Load {
    pub tenant: TenantId,
    pub copies: Vec<Copy>,
    pub sources: Arc<Sources>,
}

/// A device's thread.
pub(super) struct Worker<D: DeviceMemory> {
    pub core: Arc<Core<D>>,
    pub id: DeviceId,
    pub device: Arc<D>,
    pub executor: Executor<D>,
    pub group_bytes: u64,
    /// How long the store's pages stay registered after their last use.
    pub keep_pinned: Duration,
}

impl<D: DeviceMemory> Worker<D> {
    /// Does all jobs, until nobody can send any more.
    pub fn run(mut self, jobs: &Receiver<Job>) {
        while let Some(job) = self.next(jobs) {
            match job {
                Job::Free(released) => self.free(&released),
                Job::Load(load) => self.load(&load),
                Job::Check => self.check(),
            }
        }
    }

    /// The next job. Gives up meanwhile what has been registered for too long, because as long as it is the store cannot reclaim it.
    fn next(&self, jobs: &Receiver<Job>) -> Option<Job> {
        let registrar = self.executor.registrar();
        loop {
            registrar.expire(self.keep_pinned);
            let Some(wait) = registrar.until_expiry(self.keep_pinned) else {
                return jobs.recv().ok();
            };
            match jobs.recv_timeout(wait) {
                Ok(job) => return Some(job),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
    }

    /// Releases chunks. The driver frees their memory when the last client has unmapped it.
    fn free(&self, released: &[Released]) {
        let taken: Vec<_> = {
            let mut state = self.core.state();
            let slot = state.devices.get_mut(&self.id);
            let chunks = slot.map(|slot| &mut slot.chunks);
            chunks.map_or_else(Vec::new, |chunks| {
                let names = released.iter().map(|one| (one.tenant, one.chunk));
                names.filter_map(|name| chunks.remove(&name)).collect()
            })
        };
        // Outside the lock: the driver takes its time.
        drop(taken);
    }

    fn load(&mut self, load: &Load) {
        if self.core.give_up_unwanted(self.id, load) {
            return;
        }
        let done = self.create(load).map_err(CopyError::from);
        let done = done.and_then(|()| self.copy(load));
        self.count_registrations();
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

    fn count_registrations(&self) {
        let uses = self.executor.registrar().take_uses();
        self.core.metrics.registrations.add(uses.made);
        self.core.metrics.reused_registrations.add(uses.reused);
    }

    /// Gives the device up if the driver cannot even say how much memory it has. Errors of a context are sticky: every later call
    /// gets them, in this process.
    fn check(&self) {
        if let Some(slot) = self.core.state().devices.get_mut(&self.id) {
            slot.checking = false;
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

    /// Makes the chunks that the load needs and that do not exist: its own, and those of an earlier one that was given up.
    fn create(&self, load: &Load) -> Result<(), MemoryError> {
        let absent = self.core.state().absent_chunks(self.id, load);
        for (name, bytes) in absent {
            let chunk = self.device.create(bytes)?;
            let range = self.device.reserve(bytes)?;
            let mapping = self.device.map(range, &chunk, Protection::ReadWrite)?;
            let physical = Physical {
                chunk: Arc::new(chunk),
                mapping: Arc::new(mapping),
                bytes,
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

/// What clients are told.
fn reason(error: &CopyError) -> Reason {
    match error {
        CopyError::Memory(MemoryError::OutOfMemory { .. }) => Reason::DEVICE_FULL,
        CopyError::NoSource { .. } => Reason::MISSING,
        _ => Reason::COPY_FAILED,
    }
}
