//! The interface.

use std::fmt::Debug;
use std::ops::DerefMut;
use std::sync::Arc;

use super::{Capabilities, DeviceInfo, Exported, HostSlice, MemoryError, MemoryKind, Protection};

/// A chunk in this process's address space of the device.
pub trait Mapped {
    /// The device address of its first byte. With the host stand-in it is an address of this process.
    fn address(&self) -> u64;
    /// Its length.
    fn bytes(&self) -> u64;
    /// What may be done through it.
    fn protection(&self) -> Protection;
}

/// The memory of one device.
///
/// **Protocol.** The owner [`create`](Self::create)s a chunk, [`reserve`](Self::reserve)s a range of the same
/// length, [`map`](Self::map)s it read-write, copies into it, and [`export`](Self::export)s it. A client
/// [`import`](Self::import)s what was exported, reserves and maps it with
/// [`Capabilities::client_protection`]. Physical memory is free again when the owner and every importer have
/// released and unmapped it, or died.
///
/// **Guarantees.** Values of the associated types give back what they stand for when they are dropped.
/// Host memory that a copy reads is kept until [`settle`](Self::settle) or
/// [`synchronise`](Self::synchronise) finds the copy finished, also when the caller has let go of it.
///
/// **Caveats.** A copy that is under way when the destination is overwritten by another stream leaves
/// either's bytes: order between streams is the caller's, by events.
pub trait DeviceMemory: Send + Sync {
    /// Which implementation this is.
    const KIND: MemoryKind;

    /// Addresses without memory.
    type Range: Send + Sync + Debug;
    /// Memory without an address: created here, or imported.
    type Chunk: Send + Sync + Debug;
    /// Memory at an address.
    type Mapping: Mapped + Send + Sync + Debug;
    /// Copies on one stream happen in order.
    type Stream: Send + Debug;
    /// A moment on a stream.
    type Event: Send + Sync + Debug;
    /// Host memory that the device reads at full speed.
    type Pinned: DerefMut<Target = [u8]> + Send + Sync + 'static;
    /// Keeps somebody else's host memory pinned.
    type Registration: Send + Sync + Debug;

    /// What the driver says about the device, now.
    fn info(&self) -> Result<DeviceInfo, MemoryError>;
    /// What can be done with it; does not change.
    fn capabilities(&self) -> Capabilities;

    /// Takes `bytes` of addresses, a multiple of the granule.
    fn reserve(&self, bytes: u64) -> Result<Self::Range, MemoryError>;
    /// Takes `bytes` of memory, a multiple of the granule. Its content is undefined.
    fn create(&self, bytes: u64) -> Result<Self::Chunk, MemoryError>;
    /// Makes the chunk importable once. Can be called again for the next importer.
    fn export(&self, chunk: &Self::Chunk) -> Result<Exported, MemoryError>;
    /// Takes what another process exported, `bytes` long.
    fn import(&self, exported: Exported, bytes: u64) -> Result<Self::Chunk, MemoryError>;
    /// Gives the chunk the addresses of `range`, which is as long.
    fn map(
        &self,
        range: Self::Range,
        chunk: &Self::Chunk,
        protection: Protection,
    ) -> Result<Self::Mapping, MemoryError>;
    /// Takes the memory away from its addresses. Nothing may use it any more: no copy, no kernel.
    fn unmap(&self, mapping: Self::Mapping) -> Result<Self::Range, MemoryError>;
    /// What dropping the chunk does, with the error that it meets.
    fn release(&self, chunk: Self::Chunk) -> Result<(), MemoryError>;

    /// A stream of its own.
    fn stream(&self) -> Result<Self::Stream, MemoryError>;
    /// Queues a copy of `from` to `offset` bytes into `to`. An error may also come later, from the
    /// event that follows it.
    fn copy_in(
        &self,
        stream: &mut Self::Stream,
        to: &Arc<Self::Mapping>,
        offset: u64,
        from: HostSlice,
    ) -> Result<(), MemoryError>;
    /// An event that happens when everything queued so far has.
    fn record(&self, stream: &mut Self::Stream) -> Result<Self::Event, MemoryError>;
    /// Whether the event has happened.
    fn is_done(&self, event: &Self::Event) -> Result<bool, MemoryError>;
    /// Waits for the event.
    fn wait(&self, event: &Self::Event) -> Result<(), MemoryError>;
    /// Lets go of the host memory of copies before the last recorded event that has happened. Does not wait.
    fn settle(&self, stream: &mut Self::Stream) -> Result<(), MemoryError>;
    /// Waits for everything queued, and lets go of its host memory.
    fn synchronise(&self, stream: &mut Self::Stream) -> Result<(), MemoryError>;
    /// Copies out of a mapping and waits for it: for checks.
    fn read_back(
        &self,
        from: &Self::Mapping,
        offset: u64,
        to: &mut [u8],
    ) -> Result<(), MemoryError>;

    /// Waits for everything that this process has queued on the device, by whatever library: kernels may still read what
    /// is about to be unmapped.
    fn finish(&self) -> Result<(), MemoryError>;

    /// Pinned host memory of the mirror's own.
    fn pinned(&self, bytes: usize) -> Result<Self::Pinned, MemoryError>;
    /// Pins the pages that the owner of `memory` has, all of them.
    fn register(&self, memory: HostSlice) -> Result<Self::Registration, MemoryError>;
}
