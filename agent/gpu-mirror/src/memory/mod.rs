//! Device memory: one small interface, and what is behind it.
//!
//! | implementation | memory | handed to others as | protection |
//! |---|---|---|---|
//! | [`host::HostDevice`] | memfd | file descriptor | read-only, held by the kernel's seal |
//! | [`cuda::VmmDevice`] | `cuMemCreate` | file descriptor | read-only where the importer asks for it |
//! | [`cuda::IpcDevice`] | `cuMemAlloc` | 64 bytes | none: importers can write |
//!
//! Physical memory ([`DeviceMemory::Chunk`]) and its place in an address space ([`DeviceMemory::Mapping`]) are
//! separate values, each of which gives back what it stands for when it is dropped. A mapping keeps the
//! memory that it shows: a chunk may be released before.

pub mod cuda;
pub mod host;

mod bounds;
mod device;
mod error;
mod host_bytes;
mod types;

pub(crate) use bounds::{check_chunk_size, check_copy, check_inside};
pub use device::{DeviceMemory, Mapped};
pub use error::MemoryError;
pub use host_bytes::{HostBytes, HostSlice};
pub use types::{
    Capabilities, DeviceInfo, DeviceUuid, Exported, HANDLE_BYTES, MemoryKind, Protection,
};
