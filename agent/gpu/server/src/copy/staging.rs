//! Ring of pinned buffers.

use std::sync::Arc;

use tetris_gpu_device::{DeviceMemory, MemoryError};

/// Pinned buffers with room for one group each. A buffer is free if only the ring refers to it, so
/// no thread writes to a buffer that a copy reads.
pub(super) struct Ring<D: DeviceMemory> {
    slots: Vec<Arc<D::Pinned>>,
    slot_bytes: u64,
}

impl<D: DeviceMemory> Ring<D> {
    pub fn new(device: &D, slots: usize, slot_bytes: u64) -> Result<Self, MemoryError> {
        let slot = |_| device.pinned(slot_bytes as usize).map(Arc::new);
        let slots = (0..slots).map(slot).collect::<Result<_, _>>()?;
        Ok(Self { slots, slot_bytes })
    }

    /// Length of a buffer, in bytes.
    pub fn slot_bytes(&self) -> u64 {
        self.slot_bytes
    }

    /// Takes a free buffer, the least recently used one. `None` if there is none.
    pub fn take(&mut self) -> Option<Arc<D::Pinned>> {
        let free = |slot: &mut Arc<D::Pinned>| Arc::get_mut(slot).is_some();
        let at = self.slots.iter_mut().position(free)?;
        Some(self.slots.remove(at))
    }

    /// Puts a buffer back, which copies may still read.
    pub fn put(&mut self, slot: Arc<D::Pinned>) {
        self.slots.push(slot);
    }
}
