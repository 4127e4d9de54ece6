//! How full an arena is.

use super::Arena;

/// How full an arena is, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ArenaStats {
    /// All chunks.
    pub created_bytes: u64,
    /// The objects, each rounded up to the alignment.
    pub live_bytes: u64,
    /// The longest hole.
    pub largest_hole_bytes: u64,
    /// How many objects there are.
    pub objects: usize,
    /// How many chunks, which is how many descriptors a client of everything needs.
    pub chunks: usize,
}

impl ArenaStats {
    /// Bytes taken from the device that hold nothing.
    pub fn waste_bytes(&self) -> u64 {
        self.created_bytes.saturating_sub(self.live_bytes)
    }
}

impl Arena {
    /// How full the arena is.
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
