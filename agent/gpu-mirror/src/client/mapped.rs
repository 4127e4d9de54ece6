//! A model's chunks, mapped in this process.

use std::sync::Arc;

use crate::memory::{DeviceMemory, Mapped};

/// Mappings that are removed once this process's queued work no longer reads them.
#[derive(Debug)]
pub(super) struct Mappings<D: DeviceMemory> {
    device: Arc<D>,
    chunks: Vec<D::Mapping>,
}

impl<D: DeviceMemory> Mappings<D> {
    pub fn new(device: Arc<D>, chunks: Vec<D::Mapping>) -> Self {
        Self { device, chunks }
    }

    pub fn device(&self) -> &Arc<D> {
        &self.device
    }

    pub fn get(&self, chunk: usize) -> Option<&D::Mapping> {
        self.chunks.get(chunk)
    }

    pub fn bytes(&self) -> u64 {
        self.chunks.iter().map(Mapped::bytes).sum()
    }
}

impl<D: DeviceMemory> Drop for Mappings<D> {
    fn drop(&mut self) {
        if let Err(error) = self.device.finish() {
            tracing::debug!(%error, "a device did not finish before memory was unmapped");
        }
    }
}
