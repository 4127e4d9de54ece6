//! The simulated device.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::chunk::{HostChunk, HostMapping, HostRange};
use super::copies::{HostEvent, HostStream, Source};
use super::faults::{Allowances, Faults};
use super::link::{Link, LinkCosts};
use crate::device::NO_LINK;
use crate::{
    Capabilities, DeviceInfo, DeviceMemory, DeviceMode, DeviceUuid, Exported, HostSlice, Mapped,
    MemoryError, MemoryKind, Protection, check_across, check_chunk_size, check_copy,
};

/// Granule in bytes, as with CUDA.
const GRANULE_BYTES: u64 = 2 << 20;

/// A device in host memory. Clones refer to the same device.
#[derive(Debug, Clone)]
pub struct HostDevice(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// Its number among the simulated devices.
    number: u32,
    /// Devices of one group above 0 are joined by links.
    link_group: u8,
    capacity_bytes: u64,
    used: Arc<AtomicU64>,
    allowances: Arc<Allowances>,
    link: Arc<Link>,
    lost: AtomicBool,
}

/// Host memory in the role of pinned memory.
pub type HostPinned = Box<[u8]>;

/// Host memory in the role of registered memory.
#[derive(Debug)]
pub struct HostRegistration {
    /// Keeps the registered memory alive.
    _memory: HostSlice,
}

impl HostDevice {
    /// Creates a device of `capacity_bytes`.
    pub fn new(capacity_bytes: u64) -> Self {
        Self::with_faults(capacity_bytes, Faults::default())
    }

    /// Creates a device of `capacity_bytes` with injected faults.
    pub fn with_faults(capacity_bytes: u64, faults: Faults) -> Self {
        Self::made(0, 0, capacity_bytes, faults, LinkCosts::default())
    }

    /// Creates a device of `capacity_bytes` whose copies have these costs.
    pub fn with_link(capacity_bytes: u64, costs: LinkCosts) -> Self {
        Self::made(0, 0, capacity_bytes, Faults::default(), costs)
    }

    /// Creates the device of this number. Devices of the same `link_group` above 0 are joined by
    /// links, as GPUs by NVLink.
    pub fn numbered(number: u32, link_group: u8, capacity_bytes: u64) -> Self {
        let (faults, costs) = (Faults::default(), LinkCosts::default());
        Self::made(number, link_group, capacity_bytes, faults, costs)
    }

    fn made(
        number: u32,
        link_group: u8,
        capacity_bytes: u64,
        faults: Faults,
        costs: LinkCosts,
    ) -> Self {
        Self(Arc::new(Shared {
            number,
            link_group,
            capacity_bytes,
            used: Arc::default(),
            allowances: Arc::new(faults.into()),
            link: Arc::new(Link::new(costs)),
            lost: AtomicBool::new(false),
        }))
    }

    /// Injects faults from now on. A stream with a failed copy stays unusable.
    pub fn set_faults(&self, faults: Faults) {
        self.0.allowances.set(faults);
    }

    /// Fails every operation from now on, like a device that fell off the bus: even its description
    /// fails.
    pub fn lose(&self) {
        self.set_faults(Faults {
            creates: 0,
            imports: 0,
            copies: 0,
            across: 0,
            registrations: 0,
            busy_registrations: 0,
            pinned: 0,
            stale: None,
        });
        self.0.lost.store(true, Ordering::Relaxed);
    }

    fn uuid(&self) -> DeviceUuid {
        let mut uuid = *b"simulated dev 01";
        for (byte, number) in uuid.iter_mut().rev().zip(self.0.number.to_le_bytes()) {
            *byte ^= number;
        }
        DeviceUuid(uuid)
    }

    fn full(&self, asked_bytes: u64) -> MemoryError {
        let total_bytes = self.0.capacity_bytes;
        let free_bytes = total_bytes.saturating_sub(self.0.used.load(Ordering::Relaxed));
        MemoryError::OutOfMemory {
            asked_bytes,
            free_bytes,
            total_bytes,
        }
    }
}

impl DeviceMemory for HostDevice {
    const KIND: MemoryKind = MemoryKind::Host;

    type Range = HostRange;
    type Chunk = HostChunk;
    type Mapping = HostMapping;
    type Stream = HostStream;
    type Event = HostEvent;
    type Pinned = HostPinned;
    type Registration = HostRegistration;

    fn info(&self) -> Result<DeviceInfo, MemoryError> {
        if self.0.lost.load(Ordering::Relaxed) {
            return Err(MemoryError::Driver {
                action: "ask for free device memory",
                code: 46,
                name: "CUDA_ERROR_DEVICE_UNAVAILABLE".to_owned(),
            });
        }
        let total_bytes = self.0.capacity_bytes;
        let used = self.0.used.load(Ordering::Relaxed);
        Ok(DeviceInfo {
            uuid: self.uuid(),
            name: "host memory".to_owned(),
            total_bytes,
            free_bytes: total_bytes.saturating_sub(used),
            mode: DeviceMode::Shared,
            pci_address: None,
        })
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            granule_bytes: GRANULE_BYTES,
            read_only_mappings: true,
            read_only_enforced: true,
            stable_addresses: false,
            registers_read_only: true,
        }
    }

    fn reserve(&self, bytes: u64) -> Result<HostRange, MemoryError> {
        check_chunk_size(bytes, GRANULE_BYTES)?;
        Ok(HostRange { bytes })
    }

    fn create(&self, bytes: u64) -> Result<HostChunk, MemoryError> {
        check_chunk_size(bytes, GRANULE_BYTES)?;
        if !self.0.allowances.creates.take() {
            return Err(self.full(bytes));
        }
        let capacity = self.0.capacity_bytes;
        let more = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= capacity);
        self.0
            .used
            .try_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .map_err(|_| self.full(bytes))?;
        let chunk = HostChunk::create(bytes, Arc::clone(&self.0.used))?;
        if let Some(byte) = self.0.allowances.stale_byte() {
            chunk.map(Protection::ReadWrite)?.fill(byte)?;
        }
        Ok(chunk)
    }

    fn export(&self, chunk: &HostChunk) -> Result<Exported, MemoryError> {
        chunk.export().map(Exported::Descriptor)
    }

    fn import(&self, exported: Exported, bytes: u64) -> Result<HostChunk, MemoryError> {
        check_chunk_size(bytes, GRANULE_BYTES)?;
        let Exported::Descriptor(file) = exported else {
            let reason = format!("expected a file descriptor, found {}", exported.kind());
            return Err(MemoryError::Import { reason });
        };
        if !self.0.allowances.imports.take() {
            let reason = "an injected fault".to_owned();
            return Err(MemoryError::Import { reason });
        }
        HostChunk::import(file, bytes)
    }

    fn map(
        &self,
        range: HostRange,
        chunk: &HostChunk,
        protection: Protection,
    ) -> Result<HostMapping, MemoryError> {
        if range.bytes != chunk.0.bytes {
            return Err(MemoryError::RangeSize {
                chunk_bytes: chunk.0.bytes,
                range_bytes: range.bytes,
            });
        }
        chunk.map(protection)
    }

    fn unmap(&self, mapping: HostMapping) -> Result<HostRange, MemoryError> {
        let bytes = mapping.bytes();
        drop(mapping);
        Ok(HostRange { bytes })
    }

    fn release(&self, chunk: HostChunk) -> Result<(), MemoryError> {
        drop(chunk);
        Ok(())
    }

    fn stream(&self) -> Result<HostStream, MemoryError> {
        Ok(HostStream::new(
            Arc::clone(&self.0.allowances),
            Arc::clone(&self.0.link),
        ))
    }

    fn copy_in(
        &self,
        stream: &mut HostStream,
        to: &Arc<HostMapping>,
        offset: u64,
        from: HostSlice,
    ) -> Result<(), MemoryError> {
        check_copy(to.protection(), offset, from.bytes().len(), to.bytes())?;
        stream.push(Arc::clone(to), offset, Source::Host(from));
        Ok(())
    }

    fn is_linked(&self, from: &Self) -> Result<bool, MemoryError> {
        let (own, other) = (&self.0, &from.0);
        let is_same_group = own.link_group > 0 && own.link_group == other.link_group;
        Ok(is_same_group && own.number != other.number)
    }

    fn copy_across(
        &self,
        stream: &mut HostStream,
        to: &Arc<HostMapping>,
        offset: u64,
        source: &Self,
        from: &Arc<HostMapping>,
        part: Range<u64>,
    ) -> Result<(), MemoryError> {
        if !self.is_linked(source)? {
            return Err(NO_LINK);
        }
        let len = check_across(&part, from.bytes())?;
        check_copy(to.protection(), offset, len, to.bytes())?;
        stream.push(
            Arc::clone(to),
            offset,
            Source::Device(Arc::clone(from), part),
        );
        Ok(())
    }

    fn record(&self, stream: &mut HostStream) -> Result<HostEvent, MemoryError> {
        Ok(stream.record())
    }

    fn is_done(&self, event: &HostEvent) -> Result<bool, MemoryError> {
        event.is_done()
    }

    fn wait(&self, event: &HostEvent) -> Result<(), MemoryError> {
        event.wait()
    }

    fn settle(&self, stream: &mut HostStream) -> Result<(), MemoryError> {
        stream.settle();
        Ok(())
    }

    fn synchronize(&self, stream: &mut HostStream) -> Result<(), MemoryError> {
        stream.synchronize()
    }

    fn read_back(&self, from: &HostMapping, offset: u64, to: &mut [u8]) -> Result<(), MemoryError> {
        from.read(offset, to)
    }

    fn reclaim(&self, chunk: HostChunk, mapping: HostMapping) -> Result<bool, MemoryError> {
        let witness = chunk.witness()?;
        drop((mapping, chunk));
        Ok(witness.is_alone())
    }

    fn clear(&self, mapping: &HostMapping) -> Result<(), MemoryError> {
        mapping.clear()
    }

    fn finish(&self) -> Result<(), MemoryError> {
        // Threads of the program use host memory, and this function cannot wait for them.
        Ok(())
    }

    fn pinned(&self, bytes: usize) -> Result<HostPinned, MemoryError> {
        if !self.0.allowances.pinned.take() {
            return Err(MemoryError::Driver {
                action: "allocate pinned host memory",
                code: 2,
                name: "CUDA_ERROR_OUT_OF_MEMORY".to_owned(),
            });
        }
        Ok(vec![0; bytes].into_boxed_slice())
    }

    fn register(&self, memory: HostSlice) -> Result<HostRegistration, MemoryError> {
        if self.0.allowances.busy_registrations.take() {
            Err(MemoryError::Driver {
                action: "register host memory",
                code: 2,
                name: "CUDA_ERROR_OUT_OF_MEMORY".to_owned(),
            })
        } else if self.0.allowances.registrations.take() {
            Ok(HostRegistration { _memory: memory })
        } else {
            Err(MemoryError::Unsupported {
                what: "registering host memory (an injected fault)",
                next: "copy through pinned memory",
            })
        }
    }
}
