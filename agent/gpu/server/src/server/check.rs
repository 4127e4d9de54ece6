//! Checks of the bytes on a device against the names of the objects, at a bounded rate.
//!
//! Every process that maps a chunk may write to it where the driver lets it. So a device's thread
//! reads objects back, one after the other in random order, and hashes them. No one can tell which
//! one comes next.
//!
//! **Guarantees.** The thread that checks is the one that copies, so no piece is read while other
//! bytes are on their way to the same place. An object that leaves its place meanwhile is given up.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tetris_store_layout::{
    ObjectId, SEGMENT_BYTES, SegmentDigest, SegmentHasher, combine, segment_count, segment_len,
};

use super::core::Core;
use super::damaged::Damaged;
use crate::arena::ObjectPlace;
use crate::residency::{DeviceId, TenantId};
use tetris_gpu_device::{DeviceMemory, MemoryError};

/// Time after which a thread without objects to check looks again, unless a job comes before.
const IDLE: Duration = Duration::from_mins(1);

/// The checks of one device.
#[derive(Debug)]
pub(super) struct Checker {
    bytes_per_sec: u64,
    due: Instant,
    current: Option<Check>,
    buffer: Vec<u8>,
    random: RandomState,
    drawn: u64,
}

/// An object that is being checked.
#[derive(Debug)]
struct Check {
    tenant: TenantId,
    object: ObjectId,
    place: ObjectPlace,
    segments: Vec<SegmentDigest>,
}

impl Checker {
    /// Checks at most `bytes_per_sec`, over a longer time; nothing with 0.
    pub fn new(bytes_per_sec: u64) -> Self {
        Self {
            bytes_per_sec,
            due: Instant::now(),
            current: None,
            buffer: Vec::new(),
            random: RandomState::new(),
            drawn: 0,
        }
    }

    /// Time until the next piece is due. `None` if nothing is checked.
    pub fn until_due(&self) -> Option<Duration> {
        let left = self.due.saturating_duration_since(Instant::now());
        (self.bytes_per_sec > 0).then_some(left)
    }

    /// Checks one piece, if it is due. Returns an object whose bytes are not its own.
    pub fn step<D: DeviceMemory>(
        &mut self,
        core: &Core<D>,
        id: DeviceId,
        device: &D,
    ) -> Result<Option<Damaged>, MemoryError> {
        if self.bytes_per_sec == 0 || Instant::now() < self.due {
            return Ok(None);
        }
        let check = self.current.take().or_else(|| self.draw(core, id));
        let Some(mut check) = check else {
            self.due = Instant::now() + IDLE;
            return Ok(None);
        };
        let index = check.segments.len() as u64;
        let length = segment_len(check.place.len, index);
        self.pause(length);
        let Some(mapping) = core.state().mapping_of(id, &check) else {
            // It left, or moved.
            return Ok(None);
        };
        self.buffer.resize(length as usize, 0);
        let offset = check.place.offset + index * SEGMENT_BYTES;
        device.read_back(&mapping, offset, &mut self.buffer)?;
        core.metrics.checked_bytes.add(length);
        let mut hasher = SegmentHasher::new(check.place.len, index);
        hasher.update(&self.buffer);
        check.segments.push(hasher.finish());
        if (check.segments.len() as u64) < segment_count(check.place.len) {
            self.current = Some(check);
            return Ok(None);
        }
        core.metrics.checked_objects.one();
        let object = combine(&check.segments).map(|(object, _)| object);
        Ok((object != Some(check.object)).then_some(Damaged {
            tenant: check.tenant,
            object: check.object,
        }))
    }

    /// Puts the next piece off, by half to three halves of the time that this one may take.
    fn pause(&mut self, bytes: u64) {
        let even = Duration::from_secs(1).as_nanos() * u128::from(bytes.max(1))
            / u128::from(self.bytes_per_sec);
        let random = u128::from(self.number() % 1024);
        let nanos = even / 2 + even * random / 1024;
        let wait = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        self.due = Instant::now() + wait.min(Duration::from_hours(1));
    }

    fn draw<D: DeviceMemory>(&mut self, core: &Core<D>, id: DeviceId) -> Option<Check> {
        let number = self.number();
        let state = core.state();
        let (tenant, object) = state.manager.ready_object(id, number)?;
        let place = state.manager.ready_place(id, tenant, &object)?;
        Some(Check {
            tenant,
            object,
            place,
            segments: Vec::new(),
        })
    }

    /// A number that no client can tell in advance.
    fn number(&mut self) -> u64 {
        self.drawn += 1;
        self.random.hash_one(self.drawn)
    }
}

impl<D: DeviceMemory> super::state::State<D> {
    /// The mapping with an object that is being checked; `None` if it is no longer at its place.
    fn mapping_of(&self, device: DeviceId, check: &Check) -> Option<Arc<D::Mapping>> {
        let place = self
            .manager
            .ready_place(device, check.tenant, &check.object)?;
        let slot = self.devices.get(&device).filter(|_| place == check.place)?;
        let physical = slot.chunks.get(&(check.tenant, place.chunk))?;
        Some(Arc::clone(&physical.mapping))
    }
}
