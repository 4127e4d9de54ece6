//! The interface of device memory.

use std::fmt::Debug;
use std::ops::DerefMut;
use std::sync::Arc;

use super::stream_handle::StreamHandle;
use super::{
    Capabilities, DeviceInfo, DeviceUuid, Exported, HostSlice, MemoryError, MemoryKind, Protection,
};

/// The error of a copy between devices that no link joins.
pub(super) const NO_LINK: MemoryError = MemoryError::Unsupported {
    what: "a copy between two devices without a link",
    next: "copy from host memory",
};

/// A chunk in this process's address space of the device.
pub trait Mapped {
    /// Device address of its first byte. On the simulated device it is an address of this process.
    fn address(&self) -> u64;
    /// Length in bytes.
    fn bytes(&self) -> u64;
    /// Protection of the mapping.
    fn protection(&self) -> Protection;
}

/// The memory of one device.
///
/// **Protocol.** The owner [`create`](Self::create)s a chunk, [`reserve`](Self::reserve)s a range
/// of the same length, [`map`](Self::map)s it read-write, [`clear`](Self::clear)s it, because an
/// earlier owner's bytes may be there, copies into it, and [`export`](Self::export)s it. A client [`import`](Self::import)s it, reserves a range, and maps
/// it with [`Capabilities::client_protection`]. The physical memory is free again once the owner
/// and every importer have released and unmapped it, or died.
///
/// **Guarantees.** Values of the associated types free their resource on drop. The stream keeps the
/// host memory of a copy until [`settle`](Self::settle) or [`synchronize`](Self::synchronize) finds
/// the copy finished, even if the caller has dropped it.
///
/// **Caveats.** If copies of two streams to the same destination overlap in time, the bytes of
/// either can remain. The caller orders streams with events.
pub trait DeviceMemory: Send + Sync + 'static {
    /// The implementation.
    const KIND: MemoryKind;

    /// Reserved addresses without memory.
    type Range: Send + Sync + Debug;
    /// Memory without an address, created here or imported.
    type Chunk: Send + Sync + Debug;
    /// Memory at an address.
    type Mapping: Mapped + Send + Sync + Debug;
    /// A stream, which runs its copies in order.
    type Stream: Send + Debug;
    /// A point in the order of a stream.
    type Event: Send + Sync + Debug;
    /// Host memory that the device reads at full speed.
    type Pinned: DerefMut<Target = [u8]> + Send + Sync + 'static;
    /// Keeps host memory of another owner pinned.
    type Registration: Send + Sync + Debug;

    /// Queries the driver's description of the device.
    fn info(&self) -> Result<DeviceInfo, MemoryError>;
    /// Queries the device's identity alone, which takes less time than all of [`Self::info`].
    fn uuid(&self) -> Result<DeviceUuid, MemoryError> {
        Ok(self.info()?.uuid)
    }
    /// Capabilities of the device; they do not change.
    fn capabilities(&self) -> Capabilities;

    /// Reserves `bytes` of addresses, a multiple of the granule.
    fn reserve(&self, bytes: u64) -> Result<Self::Range, MemoryError>;
    /// The address of a range's first byte, if memory mapped there later will have it; `None` if only the
    /// mapping has one.
    fn address_of(_range: &Self::Range) -> Option<u64> {
        None
    }
    /// Creates a chunk of `bytes`, a multiple of the granule, with undefined content.
    fn create(&self, bytes: u64) -> Result<Self::Chunk, MemoryError>;
    /// Exports the chunk for one importer. Callers repeat it for each further importer.
    fn export(&self, chunk: &Self::Chunk) -> Result<Exported, MemoryError>;
    /// Imports a chunk of `bytes` that another process exported.
    fn import(&self, exported: Exported, bytes: u64) -> Result<Self::Chunk, MemoryError>;
    /// Maps the chunk at the addresses of `range`, which has the same length.
    fn map(
        &self,
        range: Self::Range,
        chunk: &Self::Chunk,
        protection: Protection,
    ) -> Result<Self::Mapping, MemoryError>;
    /// Unmaps the memory from its addresses. No copy and no kernel may use it any more.
    fn unmap(&self, mapping: Self::Mapping) -> Result<Self::Range, MemoryError>;
    /// Drops the chunk and reports an error of doing so.
    fn release(&self, chunk: Self::Chunk) -> Result<(), MemoryError>;

    /// Creates a new stream.
    fn stream(&self) -> Result<Self::Stream, MemoryError>;
    /// Queues a copy of `from` to `offset` bytes into `to`. The event after the copy can report its
    /// error too.
    fn copy_in(
        &self,
        stream: &mut Self::Stream,
        to: &Arc<Self::Mapping>,
        offset: u64,
        from: HostSlice,
    ) -> Result<(), MemoryError>;
    /// Returns true if a direct link joins `from` to this device, so that [`Self::copy_across`] needs
    /// no host memory.
    fn is_linked(&self, _from: &Self) -> Result<bool, MemoryError> {
        Ok(false)
    }
    /// Queues a copy of the `_part` of a mapping of the device `_source`, in bytes, to `_offset` bytes
    /// into `_to`, over the link between the devices. The stream, one of this device, keeps
    /// both mappings as it keeps host memory. Nothing may write to the source meanwhile.
    ///
    /// # Errors
    ///
    /// [`MemoryError::Unsupported`] if no link joins the devices.
    fn copy_across(
        &self,
        _stream: &mut Self::Stream,
        _to: &Arc<Self::Mapping>,
        _offset: u64,
        _source: &Self,
        _from: &Arc<Self::Mapping>,
        _part: std::ops::Range<u64>,
    ) -> Result<(), MemoryError> {
        Err(NO_LINK)
    }
    /// Records an event that happens after everything queued so far.
    fn record(&self, stream: &mut Self::Stream) -> Result<Self::Event, MemoryError>;
    /// Returns true if the event has happened.
    fn is_done(&self, event: &Self::Event) -> Result<bool, MemoryError>;
    /// Waits for the event.
    fn wait(&self, event: &Self::Event) -> Result<(), MemoryError>;
    /// Drops the host memory of copies before the last recorded event that has happened. Does not
    /// wait.
    fn settle(&self, stream: &mut Self::Stream) -> Result<(), MemoryError>;
    /// Waits for everything queued, and drops its host memory.
    fn synchronize(&self, stream: &mut Self::Stream) -> Result<(), MemoryError>;
    /// Copies out of a mapping and waits for the copy: for checks.
    fn read_back(
        &self,
        from: &Self::Mapping,
        offset: u64,
        to: &mut [u8],
    ) -> Result<(), MemoryError>;

    /// Drops a chunk of this process and its mapping. Returns true if their memory is free then, and
    /// false if it cannot tell or an importer still has it.
    fn reclaim(&self, chunk: Self::Chunk, mapping: Self::Mapping) -> Result<bool, MemoryError>;
    /// Sets all bytes of a writable mapping of a chunk created here and not exported yet to
    /// zero, and waits.
    fn clear(&self, mapping: &Self::Mapping) -> Result<(), MemoryError>;

    /// Waits for all work that this process has queued on the device through any library: kernels
    /// may still read memory that the caller is about to unmap.
    fn finish(&self) -> Result<(), MemoryError>;
    /// Waits for the work of the context that is current on the calling thread, if a program made it
    /// by `cuCtxCreate`: [`Self::finish`] waits for the context that this library, the CUDA runtime
    /// and frameworks share. No call lists the others.
    fn finish_here(&self) -> Result<(), MemoryError> {
        Ok(())
    }

    /// Queues a function on a stream of another library: work queued there later runs after
    /// the function has returned. It runs on a thread of the driver and must call no driver. A
    /// capture of a graph would keep it: the caller queues none then.
    ///
    /// # Errors
    ///
    /// [`MemoryError::Unsupported`] on the simulated device, whose consumers run on the host; the
    /// function has not run and will not.
    fn queue_wait(
        &self,
        _stream: StreamHandle,
        _wait: Box<dyn FnOnce() + Send>,
    ) -> Result<(), MemoryError> {
        Err(MemoryError::Unsupported {
            what: "waits on a stream",
            next: "wait on the host",
        })
    }

    /// Allocates `bytes` of pinned host memory.
    fn pinned(&self, bytes: usize) -> Result<Self::Pinned, MemoryError>;
    /// Registers, and so pins, the pages of `memory` for copies to this device. It begins at a page,
    /// and ends at one or with its owner's bytes.
    ///
    /// # Errors
    ///
    /// [`MemoryError::Unsupported`] if the device never accepts this memory; other errors can pass.
    fn register(&self, memory: HostSlice) -> Result<Self::Registration, MemoryError>;
}
