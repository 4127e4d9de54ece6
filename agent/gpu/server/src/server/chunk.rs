//! Existing chunks of device memory.

use std::sync::Arc;

use super::importer::Importer;
use crate::arena::ChunkId;
use crate::residency::TenantId;
use tetris_gpu_device::DeviceMemory;

/// Name of a chunk on its device.
pub(super) type ChunkName = (TenantId, ChunkId);

/// An existing chunk.
#[derive(Debug)]
pub(super) struct Physical<D: DeviceMemory> {
    pub chunk: Arc<D::Chunk>,
    pub mapping: Arc<D::Mapping>,
    pub bytes: u64,
    /// Processes that may have it.
    pub importers: Vec<Arc<Importer>>,
}
