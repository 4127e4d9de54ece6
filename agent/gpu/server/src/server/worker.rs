//! A thread for each device: it copies objects, in the order of the admissions, once their chunks
//! exist.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Instant;

use rustix::thread::set_current_timer_slack;

use super::check::Checker;
use super::core::Core;
use super::jobs::{Job, Load};
use crate::arena::ChunkId;
use crate::copy::{CopyError, Executor, TransferPlan};
use crate::residency::DeviceId;
use tetris_gpu_device::DeviceMemory;

/// The thread that copies to a device.
pub(super) struct Worker<D: DeviceMemory> {
    pub core: Arc<Core<D>>,
    pub id: DeviceId,
    pub device: Arc<D>,
    pub executor: Executor<D>,
    pub group_bytes: u64,
    /// Checks of the device's bytes.
    pub checker: Checker,
    /// The stream of copies from other devices, once there was one.
    pub across: Option<D::Stream>,
}

impl<D: DeviceMemory> Worker<D> {
    /// Runs all jobs, until no sender is left.
    pub fn run(mut self, jobs: &Receiver<Job>) {
        // Pauses while a copy runs are as short as they are meant to be: by default the kernel adds 50 us.
        let slack = set_current_timer_slack(NonZeroU64::new(1000));
        if let Err(error) = slack {
            tracing::debug!(%error, "the kernel keeps its timer slack for a thread that copies");
        }
        while let Some(job) = self.next(jobs) {
            match job {
                // The thread that makes chunks has done it.
                Job::Free(_) | Job::Leave(_) => {}
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
        let span = tracing::debug_span!(
            "transfer",
            device = %self.id,
            objects = load.copies.len(),
            bytes = load.copies.iter().map(|copy| copy.place.len).sum::<u64>()
        );
        let done = span.in_scope(|| self.copy(load));
        self.core.count_registrations(self.executor.registrar());
        if load.sources.pool().is_closed() {
            self.core.unpin(load.sources.pool());
        }
        match done {
            Ok(()) => self.core.state().loaded(self.id, load),
            Err(error) => {
                self.core.fail(self.id, load, &error);
                self.check();
            }
        }
    }

    /// Checks if the device still works.
    fn check(&self) {
        if let Some(slot) = self.core.state().devices.get_mut(&self.id) {
            slot.checking = None;
        }
        self.core.check(self.id, &self.device);
    }

    fn copy(&mut self, load: &Load) -> Result<(), CopyError> {
        let targets = self.targets(load);
        let copies = self.copy_from_peers(load, &targets);
        if copies.is_empty() {
            return Ok(());
        }
        let plan = TransferPlan::new(&copies, self.group_bytes);
        let (core, id) = (Arc::clone(&self.core), self.id);
        let begun = Instant::now();
        let report = self.executor.run(
            &plan,
            &|object| load.sources.get(object, id),
            &targets,
            &mut |object| core.arrived(id, load.tenant, &object),
        )?;
        let took = begun.elapsed();
        core.measured(id, plan.bytes(), took);
        core.metrics.direct_bytes.add(report.direct_bytes);
        core.metrics.staged_bytes.add(report.staged_bytes);
        tracing::debug!(device = %id, load = load.number, groups = report.groups, direct_bytes = report.direct_bytes, staged_bytes = report.staged_bytes, ?took, "copied");
        Ok(())
    }

    /// Mappings of the chunks that the load's objects lie in. Those of other chunks stay with the state
    /// alone: the thread that makes chunks can give their memory back meanwhile.
    fn targets(&self, load: &Load) -> BTreeMap<ChunkId, Arc<D::Mapping>> {
        let state = self.core.state();
        let Some(slot) = state.devices.get(&self.id) else {
            return BTreeMap::new();
        };
        let mapping = |chunk: ChunkId| {
            let physical = slot.chunks.get(&(load.tenant, chunk))?;
            Some((chunk, Arc::clone(&physical.mapping)))
        };
        let chunks: BTreeSet<_> = load.copies.iter().map(|copy| copy.place.chunk).collect();
        chunks.into_iter().filter_map(mapping).collect()
    }
}
