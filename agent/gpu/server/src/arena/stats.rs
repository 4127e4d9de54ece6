//! Usage of an arena.

use super::Arena;

/// Usage of an arena, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ArenaStats {
    /// Length of all chunks.
    pub created_bytes: u64,
    /// Length of the objects, each rounded up to the alignment.
    pub live_bytes: u64,
    /// Length of the longest hole.
    pub largest_hole_bytes: u64,
    /// Number of objects.
    pub objects: usize,
    /// Number of chunks: the number of descriptors that a client needs to map all of them.
    pub chunks: usize,
}

impl ArenaStats {
    /// Number of bytes of device memory that hold no object.
    pub fn waste_bytes(&self) -> u64 {
        self.created_bytes.saturating_sub(self.live_bytes)
    }
}

impl Arena {
    /// Returns the arena's usage.
    pub fn stats(&self) -> ArenaStats {
        ArenaStats {
            created_bytes: self.created_bytes,
            live_bytes: self.live_bytes,
            largest_hole_bytes: self.holes.last().map_or(0, |(len, ..)| *len),
            objects: self.places.len(),
            chunks: self.chunks.len(),
        }
    }
}
