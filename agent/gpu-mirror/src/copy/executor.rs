//! Execution of a transfer plan.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use tetris_store_layout::ObjectId;

use super::staging::Ring;
use super::{
    CopyError, DEFAULT_GROUP_BYTES, ExecutorConfigError, Group, Piece, Progress, Registrar,
    TransferPlan,
};
use crate::arena::ChunkId;
use crate::memory::{DeviceMemory, HostSlice, MemoryError};

/// Parameters of an executor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExecutorConfig {
    streams: usize,
    slots: usize,
    group_bytes: u64,
    pin_limit_bytes: u64,
}

impl Default for ExecutorConfig {
    /// Two streams keep a copy engine busy while the processor prepares groups. 16 buffers of 2
    /// MiB; at most 16 GiB registered.
    fn default() -> Self {
        Self {
            streams: 2,
            slots: 16,
            group_bytes: DEFAULT_GROUP_BYTES,
            pin_limit_bytes: 16 << 30,
        }
    }
}

impl ExecutorConfig {
    /// Checks the parameters and returns a configuration.
    ///
    /// Valid are 1 to 16 streams and 1 to 1,024 buffers of `group_bytes`, which is 4 KiB to 1 GiB.
    /// The executor registers at most `pin_limit_bytes` of the store at a time; with 0 all copies
    /// go through the buffers.
    ///
    /// # Errors
    ///
    /// [`ExecutorConfigError`] if a parameter is out of range.
    pub fn try_new(
        streams: usize,
        slots: usize,
        group_bytes: u64,
        pin_limit_bytes: u64,
    ) -> Result<Self, ExecutorConfigError> {
        let check = |fine: bool, expected, found| {
            fine.then_some(())
                .ok_or(ExecutorConfigError { expected, found })
        };
        check(
            (1..=16).contains(&streams),
            "1 to 16 streams",
            streams as u64,
        )?;
        check(
            (1..=1024).contains(&slots),
            "1 to 1024 buffers",
            slots as u64,
        )?;
        let group = (4096..=1 << 30).contains(&group_bytes);
        check(group, "groups of 4 KiB to 1 GiB", group_bytes)?;
        Ok(Self {
            streams,
            slots,
            group_bytes,
            pin_limit_bytes,
        })
    }

    /// Limit of the store's registered pages, in bytes.
    pub fn pin_limit_bytes(&self) -> u64 {
        self.pin_limit_bytes
    }

    /// Group size of plans for this executor, in bytes.
    pub fn group_bytes(&self) -> u64 {
        self.group_bytes
    }
}

/// Statistics of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Report {
    /// Number of copied groups.
    pub groups: usize,
    /// Number of bytes copied from the store's own pages.
    pub direct_bytes: u64,
    /// Number of bytes copied through the pinned buffers.
    pub staged_bytes: u64,
}

/// Executor of copies to one device.
pub struct Executor<D: DeviceMemory> {
    device: Arc<D>,
    config: ExecutorConfig,
    streams: Vec<D::Stream>,
    ring: Option<Ring<D>>,
    registrar: Arc<Registrar<D>>,
}

/// A bug: every configuration has at least one stream.
const NO_STREAM: MemoryError = MemoryError::Unsupported {
    what: "copying without a stream",
    next: "report this",
};

/// A group in flight.
struct Flight<D: DeviceMemory> {
    number: usize,
    event: D::Event,
    _pins: Vec<Arc<D::Registration>>,
}

/// State of one transfer.
struct Transfer<'a, D: DeviceMemory> {
    plan: &'a TransferPlan,
    source: &'a dyn Fn(&ObjectId) -> Option<HostSlice>,
    targets: &'a BTreeMap<ChunkId, Arc<D::Mapping>>,
    ready: &'a mut dyn FnMut(ObjectId),
    progress: Progress,
    flights: VecDeque<Flight<D>>,
    report: Report,
}

impl<D: DeviceMemory> Transfer<'_, D> {
    /// The source of each piece of a group.
    fn sources(&self, group: &Group) -> Result<Vec<HostSlice>, CopyError> {
        let source = |piece: &Piece| {
            let object = piece.object;
            let whole = (self.source)(&object).ok_or(CopyError::NoSource { object })?;
            Ok(whole.part(piece.from, piece.len)?)
        };
        group.pieces.iter().map(source).collect()
    }
}

impl<D: DeviceMemory> Executor<D> {
    /// Creates an executor for `device`. The first transfer creates its streams and buffers.
    pub fn new(device: Arc<D>, config: ExecutorConfig) -> Self {
        let registrar = Registrar::new(device, config.pin_limit_bytes);
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
        }
    }

    /// The registered memory. A transfer leaves the store's pages registered for the next one, and
    /// the store cannot reclaim them until they are unregistered.
    pub fn registrar(&self) -> &Arc<Registrar<D>> {
        &self.registrar
    }

    /// Unregisters all pages that no copy uses.
    pub fn unpin(&self) {
        self.registrar.clear();
    }

    /// Executes `plan`: copies from the objects of `source` to the chunks in `targets`, which must
    /// be mapped for writing. Calls `ready` for each object as soon as it is complete. Returns when
    /// all objects are complete, or on the first error with no copy in flight.
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
        self.registrar.begin();
        let mut transfer = Transfer {
            plan,
            source,
            targets,
            ready,
            progress: Progress::new(plan),
            flights: VecDeque::new(),
            report: Report::default(),
        };
        let outcome = self.run_all(&mut transfer);
        if outcome.is_err() {
            // Dropping a stream waits for its copies, and a failed stream is unusable.
            self.streams.clear();
        }
        outcome.map(|()| transfer.report)
    }

    fn run_all(&mut self, transfer: &mut Transfer<'_, D>) -> Result<(), CopyError> {
        while self.streams.len() < self.config.streams {
            self.streams.push(self.device.stream()?);
        }
        for (number, group) in transfer.plan.groups().iter().enumerate() {
            self.start(transfer, number, group)?;
            self.land(transfer, self.config.slots.max(self.config.streams))?;
        }
        self.land(transfer, 0)?;
        for stream in &mut self.streams {
            self.device.synchronize(stream)?;
        }
        Ok(())
    }

    /// Queues a group.
    fn start(
        &mut self,
        transfer: &mut Transfer<'_, D>,
        number: usize,
        group: &Group,
    ) -> Result<(), CopyError> {
        let target = transfer.targets.get(&group.chunk);
        let target = target.ok_or(CopyError::NoTarget { chunk: group.chunk })?;
        let sources = transfer.sources(group)?;
        let pins: Option<Vec<_>> = sources
            .iter()
            .map(|from| self.registrar.pin(from))
            .collect();
        let copies: Vec<(u64, HostSlice)> = if pins.is_some() {
            transfer.report.direct_bytes += group.bytes();
            let offsets = group.pieces.iter().map(|piece| piece.to);
            offsets.zip(sources).collect()
        } else {
            transfer.report.staged_bytes += group.bytes();
            vec![(group.start(), self.stage(transfer, group, &sources)?)]
        };
        let number_of = self.streams.len().max(1);
        let stream = self.streams.get_mut(number % number_of);
        let stream = stream.ok_or(NO_STREAM)?;
        for (offset, from) in copies {
            self.device.copy_in(stream, target, offset, from)?;
        }
        let event = self.device.record(stream)?;
        transfer.flights.push_back(Flight {
            number,
            event,
            _pins: pins.unwrap_or_default(),
        });
        Ok(())
    }

    /// Gathers a group in a pinned buffer, after waiting for a free one.
    fn stage(
        &mut self,
        transfer: &mut Transfer<'_, D>,
        group: &Group,
        sources: &[HostSlice],
    ) -> Result<HostSlice, CopyError> {
        let slot_bytes = self.config.group_bytes.max(group.span());
        loop {
            let mut ring = match self.ring.take() {
                Some(ring) if ring.slot_bytes() >= group.span() => ring,
                _ => Ring::new(&*self.device, self.config.slots, slot_bytes)?,
            };
            let gathered = ring.gather(group, sources);
            self.ring = Some(ring);
            if let Some(gathered) = gathered? {
                return Ok(gathered);
            }
            self.land(transfer, transfer.flights.len().saturating_sub(1))?;
            for stream in &mut self.streams {
                self.device.settle(stream)?;
            }
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
