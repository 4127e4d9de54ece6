//! Positions of objects in device memory: one arena for each tenant and device.
//!
//! A client that imports a chunk sees all of it, so a chunk holds objects of one tenant only. The
//! caller creates and releases whole chunks. A chunk is a multiple of the granule and at most
//! [`ArenaConfig::chunk_bytes`] long, unless a single object is longer. An object lies in one
//! chunk, at a multiple of [`ArenaConfig::align_bytes`].
//!
//! **Guarantees.**
//!
//! - A1: no two objects overlap, and no object extends past its chunk.
//! - A2: the removal that empties a chunk also releases it.
//! - A3: new chunks are as long as their objects, rounded up to the granule: a chunk created for
//!   `n` aligned bytes of objects has less than one granule of free space.
//! - A4: objects placed together that fit into no hole need at most `2 * ceil(n / chunk_bytes) + 1`
//!   chunks, and one for each object longer than a chunk: two adjacent chunks hold more than one
//!   chunk's worth of objects.
//! - A5: the arena reuses holes, best fit first, before it grows, in three cases: the request is
//!   small, holes exceed [`ArenaConfig::waste_percent`] of the live bytes, or the arena has no room
//!   to grow.
//! - A6: with whole chunks ([`ArenaConfig::with_whole_chunks`]) a new chunk has the full length, not as
//!   A3 allows, so that it fits where another one was: except that of a longer object, one that would not be
//!   three quarters full, and where there is only room for less. The last, partly filled chunk of a
//!   placement takes the rest of later ones.
//!
//! **Caveats.** Objects cannot move while a client maps them, so no allocator can prevent holes
//! when objects leave in an unlucky order. [`crate::residency`] bounds the waste: it drops idle
//! objects from the emptiest chunks, which costs a copy from the store later.

mod chunk;
mod config;
mod place;
mod stats;
mod whole;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use tetris_store_layout::ObjectId;

pub use config::{ArenaConfig, ArenaConfigError};
pub use place::{NewChunk, PlaceError, Placement};
pub use stats::ArenaStats;

use chunk::Chunk;

/// A chunk within its arena. The arena never reuses a number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChunkId(pub u64);

impl fmt::Debug for ChunkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "chunk {}", self.0)
    }
}

/// Position of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectPlace {
    /// The chunk.
    pub chunk: ChunkId,
    /// Offset from the start of the chunk, in bytes.
    pub offset: u64,
    /// The object's length in bytes.
    pub len: u64,
}

/// The objects of one tenant on one device.
#[derive(Debug, Clone)]
pub struct Arena {
    config: ArenaConfig,
    chunks: BTreeMap<ChunkId, Chunk>,
    places: BTreeMap<ObjectId, ObjectPlace>,
    /// Every hole: length, chunk, offset.
    holes: BTreeSet<(u64, ChunkId, u64)>,
    next_chunk: u64,
    created_bytes: u64,
    live_bytes: u64,
}

/// Result of removing an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Removed {
    /// Former position of the object.
    pub place: ObjectPlace,
    /// True if the caller must release the chunk.
    pub released: bool,
}

impl Arena {
    /// Creates an arena without chunks.
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

    /// Returns the position of an object.
    pub fn place_of(&self, object: &ObjectId) -> Option<ObjectPlace> {
        self.places.get(object).copied()
    }

    /// Number of bytes of all chunks: the device memory that the arena uses.
    pub fn created_bytes(&self) -> u64 {
        self.created_bytes
    }

    /// The length of a chunk in bytes.
    pub fn chunk_bytes(&self, chunk: ChunkId) -> Option<u64> {
        self.chunks.get(&chunk).map(|chunk| chunk.bytes)
    }

    /// The chunks, each with its length and the aligned length of its objects, both in bytes.
    pub fn chunks(&self) -> impl Iterator<Item = (ChunkId, u64, u64)> + '_ {
        let facts = |(id, chunk): (&ChunkId, &Chunk)| (*id, chunk.bytes, chunk.live_bytes);
        self.chunks.iter().map(facts)
    }

    /// The objects in a chunk, ordered by offset.
    pub fn objects_in(&self, chunk: ChunkId) -> impl Iterator<Item = ObjectId> + '_ {
        let objects = self.chunks.get(&chunk).map(|chunk| chunk.objects.values());
        objects.into_iter().flatten().copied()
    }

    /// Removes an object. No client may use its bytes any more.
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
