//! Execution of a transfer plan.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use tetris_store_layout::ObjectId;

use super::gather::{Gatherers, Gathering};
use super::link::LINK;
use super::staging::Ring;
use super::transfer::{Flight, Pending, Transfer};
use super::{CopyError, ExecutorConfig, Group, Progress, Registrar, Report, TransferPlan};
use crate::arena::ChunkId;
use tetris_gpu_device::{DeviceMemory, HostSlice, MemoryError};

/// Executor of copies to one device.
pub struct Executor<D: DeviceMemory> {
    device: Arc<D>,
    config: ExecutorConfig,
    streams: Vec<D::Stream>,
    ring: Option<Ring<D>>,
    gatherers: Option<Gatherers<D::Pinned>>,
    registrar: Arc<Registrar<D>>,
}

/// A bug: every configuration has at least one stream.
const NO_STREAM: MemoryError = MemoryError::Unsupported {
    what: "copying without a stream",
    next: "report this",
};

/// A bug: gathering does not fail.
const NO_BUFFER: MemoryError = MemoryError::Unsupported {
    what: "gathering by a thread that has ended",
    next: "report this",
};

impl<D: DeviceMemory> Executor<D> {
    /// Creates an executor for `device`.
    pub fn new(device: Arc<D>, config: ExecutorConfig) -> Self {
        let registrar = Registrar::new(device, config.pin_limit_bytes, config.group_bytes);
        Self::with(Arc::new(registrar), config)
    }

    /// Creates an executor for the device of `registrar`, whose limit applies.
    pub fn with(registrar: Arc<Registrar<D>>, config: ExecutorConfig) -> Self {
        Self {
            device: Arc::clone(registrar.device()),
            registrar,
            config,
            streams: Vec::new(),
            ring: None,
            gatherers: None,
        }
    }

    /// Creates the streams, buffers and threads, so that the first transfer need not. It tries again
    /// what failed.
    ///
    /// # Errors
    ///
    /// [`MemoryError`] if the device fails.
    pub fn prepare(&mut self) -> Result<(), MemoryError> {
        self.make_streams()?;
        self.gatherers();
        if self.ring.is_none() {
            self.ring = Some(self.new_ring(0)?);
        }
        Ok(())
    }

    /// The registered memory. After a transfer it holds the staged memory too, for its registration,
    /// and the store cannot reclaim either until the registrar gives it up.
    pub fn registrar(&self) -> &Arc<Registrar<D>> {
        &self.registrar
    }

    /// Gives up all registered memory that no copy uses.
    pub fn unpin(&self) {
        self.registrar.clear();
    }

    /// Executes `plan`: copies from the objects of `source` to the chunks in `targets`, which must
    /// be mapped for writing. Copies straight from registered memory, and the rest through the
    /// buffers. Calls `ready` for each object as soon as it is complete. Returns when all objects are
    /// complete, or on the first error with no copy in flight. Registers nothing itself: it leaves
    /// the staged memory to the registrar.
    ///
    /// # Errors
    ///
    /// [`CopyError`] if an object or a chunk is missing, or the device fails.
    pub fn run(
        &mut self,
        plan: &TransferPlan,
        source: &dyn Fn(&ObjectId) -> Option<HostSlice>,
        targets: &BTreeMap<ChunkId, Arc<D::Mapping>>,
        ready: &mut dyn FnMut(ObjectId),
    ) -> Result<Report, CopyError> {
        let _in_use = LINK.enter();
        let mut transfer = Transfer {
            plan,
            source,
            targets,
            ready,
            number: self.registrar.begin(),
            progress: Progress::new(plan),
            pending: VecDeque::new(),
            flights: VecDeque::new(),
            staged: BTreeMap::new(),
            report: Report::default(),
        };
        let outcome = self.run_all(&mut transfer);
        for pending in transfer.pending {
            self.take_back(pending);
        }
        if outcome.is_err() {
            // Dropping a stream waits for its copies, and a failed stream is unusable.
            self.streams.clear();
        }
        outcome?;
        for memory in transfer.staged.values() {
            self.registrar.enqueue(memory, transfer.number);
        }
        Ok(transfer.report)
    }

    fn run_all(&mut self, transfer: &mut Transfer<'_, D>) -> Result<(), CopyError> {
        self.make_streams()?;
        for (number, group) in transfer.plan.groups().iter().enumerate() {
            let pending = self.start(transfer, number, group)?;
            transfer.pending.push_back(pending);
            self.issue(transfer, usize::MAX)?;
            self.land(transfer, self.config.slots.max(self.config.streams))?;
        }
        self.issue(transfer, 0)?;
        self.land(transfer, 0)?;
        for stream in &mut self.streams {
            self.device.synchronize(stream)?;
        }
        Ok(())
    }

    fn make_streams(&mut self) -> Result<(), MemoryError> {
        while self.streams.len() < self.config.streams {
            self.streams.push(self.device.stream()?);
        }
        Ok(())
    }

    fn new_ring(&self, least_bytes: u64) -> Result<Ring<D>, MemoryError> {
        let slot_bytes = self.config.group_bytes.max(least_bytes);
        Ring::new(&*self.device, self.config.slots, slot_bytes)
    }

    fn gatherers(&mut self) -> &Gatherers<D::Pinned> {
        let count = self.config.gatherers;
        self.gatherers
            .get_or_insert_with(|| Gatherers::start(count))
    }

    /// Begins to gather a group, unless all of it is registered.
    fn start(
        &mut self,
        transfer: &mut Transfer<'_, D>,
        number: usize,
        group: &Group,
    ) -> Result<Pending<D>, CopyError> {
        let mut copies = transfer.copies(group, &self.registrar)?;
        let parts = std::mem::take(&mut copies.parts);
        let gathering = if parts.is_empty() {
            None
        } else {
            let buffer = self.buffer(transfer, group.span())?;
            Some(self.gatherers().gather(buffer, parts))
        };
        Ok(Pending {
            number,
            copies,
            gathering,
        })
    }

    /// Takes a free buffer, after waiting for one.
    fn buffer(
        &mut self,
        transfer: &mut Transfer<'_, D>,
        least_bytes: u64,
    ) -> Result<Arc<D::Pinned>, CopyError> {
        loop {
            if let Some(buffer) = self.free_buffer(least_bytes) {
                return Ok(buffer);
            }
            // Copies that have ended keep their buffers until then.
            for stream in &mut self.streams {
                self.device.settle(stream)?;
            }
            if let Some(buffer) = self.free_buffer(least_bytes) {
                return Ok(buffer);
            }
            self.issue(transfer, usize::MAX)?;
            let (flights, pending) = (transfer.flights.len(), transfer.pending.len());
            if flights > 0 {
                self.land(transfer, flights - 1)?;
            } else if pending > 0 {
                self.issue(transfer, pending - 1)?;
            } else {
                // Too small, or leaked with a stream that failed.
                self.ring = Some(self.new_ring(least_bytes)?);
            }
        }
    }

    fn free_buffer(&mut self, least_bytes: u64) -> Option<Arc<D::Pinned>> {
        let ring = self.ring.as_mut()?;
        let fits = ring.slot_bytes() >= least_bytes;
        fits.then(|| ring.take()).flatten()
    }

    /// Queues the next groups that are gathered, in order. Waits until at most `most` are not queued.
    fn issue(&mut self, transfer: &mut Transfer<'_, D>, most: usize) -> Result<(), CopyError> {
        while let Some(mut next) = transfer.pending.pop_front() {
            let waits = transfer.pending.len() >= most;
            let is_done = next.gathering.as_mut().is_none_or(Gathering::is_done);
            if !waits && !is_done {
                transfer.pending.push_front(next);
                break;
            }
            let flight = self.queue(next)?;
            transfer.flights.push_back(flight);
        }
        Ok(())
    }

    /// Queues a group, after waiting for its buffer.
    fn queue(&mut self, pending: Pending<D>) -> Result<Flight<D>, CopyError> {
        let (number, copies) = (pending.number, pending.copies);
        let mut queued = Vec::new();
        if let Some(gathering) = pending.gathering {
            let buffer = gathering.wait().ok_or(NO_BUFFER)?;
            let from: Arc<D::Pinned> = Arc::clone(&buffer);
            let from = HostSlice::whole(from);
            if let Some(ring) = &mut self.ring {
                ring.put(buffer);
            }
            for run in &copies.staged {
                queued.push((run.to, from.part(run.from, run.len)?));
            }
        }
        let mut pins = Vec::new();
        for (to, registered) in copies.direct {
            queued.push((to, registered.memory));
            pins.push(registered.registration);
        }
        let number_of = self.streams.len().max(1);
        let stream = self.streams.get_mut(number % number_of);
        let stream = stream.ok_or(NO_STREAM)?;
        for (to, from) in queued {
            self.device.copy_in(stream, &copies.target, to, from)?;
        }
        let event = self.device.record(stream)?;
        Ok(Flight {
            number,
            event,
            _pins: pins,
        })
    }

    /// Puts the buffer of a group back that is not copied any more.
    fn take_back(&mut self, pending: Pending<D>) {
        let buffer = pending.gathering.and_then(Gathering::wait);
        if let (Some(buffer), Some(ring)) = (buffer, &mut self.ring) {
            ring.put(buffer);
        }
    }

    /// Records completed groups, and waits until at most `most` are in flight.
    fn land(&mut self, transfer: &mut Transfer<'_, D>, most: usize) -> Result<(), CopyError> {
        while let Some(flight) = transfer.flights.front() {
            if transfer.flights.len() > most {
                self.device.wait(&flight.event)?;
            } else if !self.device.is_done(&flight.event)? {
                break;
            }
            let number = flight.number;
            transfer.flights.pop_front();
            transfer.report.groups += 1;
            if let Some(group) = transfer.plan.groups().get(number) {
                for object in transfer.progress.ended(number, group) {
                    (transfer.ready)(object);
                }
            }
        }
        Ok(())
    }
}
