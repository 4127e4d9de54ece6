//! Device memory: one interface and its implementations.
//!
//! | implementation | memory | exported as | protection |
//! |---|---|---|---|
//! | [`host::HostDevice`] | memfd | file descriptor | read-only, enforced by the kernel's seal |
//! | [`cuda::VmmDevice`] | `cuMemCreate` | file descriptor | read-only at the importer's request |
//! | [`cuda::IpcDevice`] | `cuMemAlloc` | 64 bytes | none: importers can write |
//!
//! Physical memory ([`DeviceMemory::Chunk`]) and its position in an address space
//! ([`DeviceMemory::Mapping`]) are separate values, and each frees its resource on drop. A mapping
//! keeps its memory alive, so the caller may release the chunk first.

#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

pub mod cuda;
pub mod host;

mod bounds;
mod device;
mod error;
mod host_bytes;
mod pci;
mod stream_handle;
mod types;

pub use bounds::check_inside;
pub(crate) use bounds::{check_across, check_chunk_size, check_copy};
pub use device::{DeviceMemory, Mapped};
pub use error::MemoryError;
pub use host_bytes::{HostBytes, HostSlice};
pub use pci::switch_of;
pub use stream_handle::StreamHandle;
pub use types::{
    Capabilities, DeviceInfo, DeviceMode, DeviceUuid, Exported, HANDLE_BYTES, MemoryKind,
    Protection,
};
