//! Where objects lie in device memory: one arena for each tenant and device.
//!
//! Whoever imports a chunk sees all of it, so a chunk holds objects of one tenant only. A chunk is created and
//! released as a whole, is a multiple of the granule and at most [`ArenaConfig::chunk_bytes`] long unless a single
//! object is longer. An object lies in one chunk, at a multiple of [`ArenaConfig::align_bytes`].
//!
//! **Guarantees.**
//!
//! - A1: no two objects overlap, no object leaves its chunk.
//! - A2: a chunk that holds nothing is released by the removal that emptied it.
//! - A3: new chunks are as long as what they get, rounded up to the granule: a chunk made for objects of `n` bytes (aligned)
//!   has less than one granule besides them.
//! - A4: objects placed together that fit nowhere else make at most `2 * ceil(n / chunk_bytes) + 1` chunks, and one
//!   for each object longer than a chunk: two neighbours hold more than one chunk's worth.
//! - A5: what is between objects is reused, best fit first, before the arena grows, whenever there is little to place, more
//!   than [`ArenaConfig::waste_percent`] of the live bytes lie idle, or there is no room to grow.
//!
//! **Caveats.** Objects cannot move while somebody maps them, so no allocator keeps holes from forming when objects leave
//! in an unlucky order. [`crate::residency`] bounds them by dropping idle objects from emptier chunks, which
//! costs a copy from the store later.

mod chunk;
mod config;
mod place;
mod stats;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use tetris_store_layout::ObjectId;

pub use config::{ArenaConfig, ArenaConfigError};
pub use place::{NewChunk, PlaceError, Placement};
pub use stats::ArenaStats;

use chunk::Chunk;

/// A chunk within its arena. Not used again for another chunk.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChunkId(pub u64);

impl fmt::Debug for ChunkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "chunk {}", self.0)
    }
}

/// Where an object lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The chunk.
    pub chunk: ChunkId,
    /// Bytes from its beginning.
    pub offset: u64,
    /// The object's length in bytes.
    pub len: u64,
}

/// The objects of one tenant on one device.
#[derive(Debug, Clone)]
pub struct Arena {
    config: ArenaConfig,
    chunks: BTreeMap<ChunkId, Chunk>,
    places: BTreeMap<ObjectId, Place>,
    /// Every hole: length, chunk, offset.
    holes: BTreeSet<(u64, ChunkId, u64)>,
    next_chunk: u64,
    created_bytes: u64,
    live_bytes: u64,
}

/// What a removal left behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Removed {
    /// Where the object was.
    pub place: Place,
    /// Whether its chunk is to be released.
    pub released: bool,
}

impl Arena {
    /// An arena without chunks.
    pub fn new(config: ArenaConfig) -> Self {
        Self {
            config,
            chunks: BTreeMap::new(),
            places: BTreeMap::new(),
            holes: BTreeSet::new(),
            next_chunk: 0,
            created_bytes: 0,
            live_bytes: 0,
        }
    }

    /// Where an object lies.
    pub fn place_of(&self, object: &ObjectId) -> Option<Place> {
        self.places.get(object).copied()
    }

    /// Bytes of all chunks: what the arena takes from the device.
    pub fn created_bytes(&self) -> u64 {
        self.created_bytes
    }

    /// The length of a chunk in bytes.
    pub fn chunk_bytes(&self, chunk: ChunkId) -> Option<u64> {
        self.chunks.get(&chunk).map(|chunk| chunk.bytes)
    }

    /// The chunks with their lengths and the aligned bytes of the objects in them, both in bytes.
    pub fn chunks(&self) -> impl Iterator<Item = (ChunkId, u64, u64)> + '_ {
        let facts = |(id, chunk): (&ChunkId, &Chunk)| (*id, chunk.bytes, chunk.live_bytes);
        self.chunks.iter().map(facts)
    }

    /// The objects in a chunk, by offset.
    pub fn objects_in(&self, chunk: ChunkId) -> impl Iterator<Item = ObjectId> + '_ {
        let objects = self.chunks.get(&chunk).map(|chunk| chunk.objects.values());
        objects.into_iter().flatten().copied()
    }

    /// Takes an object away. Nobody may use its bytes any more.
    pub fn remove(&mut self, object: &ObjectId) -> Option<Removed> {
        let place = self.places.remove(object)?;
        let aligned = self.config.aligned(place.len)?;
        let chunk = self.chunks.get_mut(&place.chunk)?;
        let merged = chunk.free(place.offset, aligned);
        for (offset, len) in merged.absorbed {
            self.holes.remove(&(len, place.chunk, offset));
        }
        self.live_bytes -= aligned;
        let released = chunk.objects.is_empty();
        if released {
            self.created_bytes -= chunk.bytes;
            self.chunks.remove(&place.chunk);
        } else {
            self.holes.insert((merged.len, place.chunk, merged.offset));
        }
        Some(Removed { place, released })
    }
}
