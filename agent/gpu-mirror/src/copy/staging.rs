//! Ring of pinned buffers.

use std::sync::Arc;

use super::Group;
use crate::memory::{DeviceMemory, HostSlice, MemoryError};

/// Pinned buffers with room for one group each. A buffer is free if only the ring refers to it, so
/// the ring never writes to a buffer that a copy reads.
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

    /// Gathers a group from `sources`, one for each piece, in a free buffer. `None` if copies use
    /// all of them.
    pub fn gather(
        &mut self,
        group: &Group,
        sources: &[HostSlice],
    ) -> Result<Option<HostSlice>, MemoryError> {
        let free = |slot: &mut Arc<D::Pinned>| Arc::get_mut(slot).is_some();
        let Some(at) = self.slots.iter_mut().position(free) else {
            return Ok(None);
        };
        // The most recently used buffer moves to the end.
        let mut slot = self.slots.remove(at);
        if let Some(buffer) = Arc::get_mut(&mut slot) {
            fill(buffer, group, sources);
        }
        let whole: Arc<D::Pinned> = Arc::clone(&slot);
        self.slots.push(slot);
        HostSlice::whole(whole).part(0, group.span()).map(Some)
    }
}

/// Copies the pieces to their offsets in the group, with zeros between them.
fn fill(buffer: &mut [u8], group: &Group, sources: &[HostSlice]) {
    let mut at = 0;
    for (piece, source) in group.pieces.iter().zip(sources) {
        let start = (piece.to - group.start()) as usize;
        if let Some(gap) = buffer.get_mut(at..start) {
            gap.fill(0);
        }
        at = start + source.bytes().len();
        if let Some(into) = buffer.get_mut(start..at) {
            into.copy_from_slice(source.bytes());
        }
    }
}
