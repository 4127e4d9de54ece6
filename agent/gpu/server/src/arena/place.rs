//! Placement of a set of objects, all or nothing.

use tetris_store_layout::ObjectId;
use thiserror::Error;

use super::chunk::Chunk;
use super::{Arena, ChunkId, ObjectPlace};

/// A chunk that the caller must create.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewChunk {
    /// Its number in the arena.
    pub id: ChunkId,
    /// Its length in bytes, a multiple of the granule.
    pub bytes: u64,
}

/// Positions of newly placed objects.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Placement {
    /// Positions, in the order of the request.
    pub places: Vec<ObjectPlace>,
    /// Chunks that the caller must create.
    pub created: Vec<NewChunk>,
}

/// The reason objects could not be placed. The arena is unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PlaceError {
    /// The arena would have to grow beyond its limit.
    #[error(
        "expected to grow by at most {room_bytes} bytes, found that {need_bytes} are needed; make room first"
    )]
    NoRoom {
        /// Number of bytes of the additional chunks.
        need_bytes: u64,
        /// Number of bytes by which the arena may grow.
        room_bytes: u64,
    },
    /// The object already has a position.
    #[error("object {0} has a place already; place each once")]
    Twice(ObjectId),
    /// The object is empty, or longer than the address range.
    #[error(
        "expected an object of 1 to 2^62 bytes, found {len} bytes in object {object}; leave it out"
    )]
    Length {
        /// The object.
        object: ObjectId,
        /// Its length in bytes.
        len: u64,
    },
}

/// A length in bytes above any device's, low enough that the sum of two does not overflow.
const MAX_BYTES: u64 = 1 << 62;

pub(super) struct Request {
    object: ObjectId,
    len: u64,
    pub(super) aligned: u64,
}

impl Arena {
    /// Places `objects`, given with their lengths in bytes, all or none. New chunks hold them side
    /// by side in this order. The arena grows by at most `room_bytes`.
    ///
    /// # Errors
    ///
    /// [`PlaceError`] if the room does not suffice, an object already has a position, or a length
    /// is invalid.
    pub fn place(
        &mut self,
        objects: &[(ObjectId, u64)],
        room_bytes: u64,
    ) -> Result<Placement, PlaceError> {
        let (requests, total) = self.check(objects)?;
        let waste = self.created_bytes - self.live_bytes;
        let little = total < self.config.chunk_bytes() / 16;
        let first = little || waste > self.config.waste_limit(self.live_bytes);
        let whole = self.config.whole_chunks();
        let mut placed = self.attempt(&requests, room_bytes, first, whole);
        if placed.is_err() && !first {
            placed = self.attempt(&requests, room_bytes, true, whole);
        }
        if placed.is_err() && whole {
            placed = self.attempt(&requests, room_bytes, true, false);
        }
        let (trial, placement) = placed?;
        *self = trial;
        Ok(placement)
    }

    /// Checks the lengths. Returns the aligned requests and their sum in bytes.
    fn check(&self, objects: &[(ObjectId, u64)]) -> Result<(Vec<Request>, u64), PlaceError> {
        let mut total = 0u64;
        let mut requests = Vec::with_capacity(objects.len());
        for &(object, len) in objects {
            let error = PlaceError::Length { object, len };
            let aligned = self.config.aligned(len).filter(|_| len > 0);
            let sum = aligned.and_then(|aligned| total.checked_add(aligned));
            let (Some(aligned), Some(sum)) = (aligned, sum.filter(|sum| *sum <= MAX_BYTES)) else {
                return Err(error);
            };
            total = sum;
            requests.push(Request {
                object,
                len,
                aligned,
            });
        }
        Ok((requests, total))
    }

    /// Places the requests in a copy of the arena and returns that copy. With `whole` chunks the rest
    /// that would fill a chunk only in part goes into holes, as far as it fits.
    fn attempt(
        &self,
        requests: &[Request],
        room_bytes: u64,
        fill_holes: bool,
        whole: bool,
    ) -> Result<(Self, Placement), PlaceError> {
        let mut trial = self.clone();
        let mut left = Vec::new();
        let rest = if whole {
            self.rest(requests)
        } else {
            requests.len()
        };
        for (at, request) in requests.iter().enumerate() {
            if !((fill_holes || at >= rest) && trial.fill(request)?) {
                left.push(request);
            }
        }
        let created = if whole {
            trial.grow_whole(&left)?
        } else {
            trial.grow(&left)?
        };
        let need_bytes = trial.created_bytes - self.created_bytes;
        if need_bytes > room_bytes {
            return Err(PlaceError::NoRoom {
                need_bytes,
                room_bytes,
            });
        }
        let place_of = |request: &Request| trial.place_of(&request.object);
        let places = requests.iter().filter_map(place_of).collect();
        Ok((trial, Placement { places, created }))
    }

    /// Puts an object into the smallest hole that is large enough. Returns false if no hole is.
    fn fill(&mut self, request: &Request) -> Result<bool, PlaceError> {
        let from = (request.aligned, ChunkId(0), 0);
        match self.holes.range(from..).next().copied() {
            Some((len, chunk, offset)) => {
                self.holes.remove(&(len, chunk, offset));
                self.put(request, chunk, offset)?;
                Ok(true)
            }
            None => Ok(false),
        }
    }

    /// Puts objects one after the other into new chunks (A3, A4).
    fn grow(&mut self, requests: &[&Request]) -> Result<Vec<NewChunk>, PlaceError> {
        let mut created = Vec::new();
        let mut batch: Vec<&Request> = Vec::new();
        let mut batch_bytes = 0;
        for request in requests {
            if request.aligned > self.config.chunk_bytes() {
                created.push(self.chunk_for(&[request], request.aligned)?);
                continue;
            }
            if batch_bytes + request.aligned > self.config.chunk_bytes() {
                created.push(self.chunk_for(&batch, batch_bytes)?);
                batch.clear();
                batch_bytes = 0;
            }
            batch.push(request);
            batch_bytes += request.aligned;
        }
        if !batch.is_empty() {
            created.push(self.chunk_for(&batch, batch_bytes)?);
        }
        Ok(created)
    }

    /// Creates a chunk for `batch`, whose aligned length is `batch_bytes`.
    pub(super) fn chunk_for(
        &mut self,
        batch: &[&Request],
        batch_bytes: u64,
    ) -> Result<NewChunk, PlaceError> {
        let bytes = batch_bytes.next_multiple_of(self.config.granule_bytes());
        let id = self.chunk_of(bytes);
        let mut offset = 0;
        for request in batch {
            self.holes.remove(&(bytes - offset, id, offset));
            self.put(request, id, offset)?;
            offset += request.aligned;
        }
        Ok(NewChunk { id, bytes })
    }

    /// Creates a chunk that is one hole.
    pub(super) fn chunk_of(&mut self, bytes: u64) -> ChunkId {
        let id = ChunkId(self.next_chunk);
        self.next_chunk += 1;
        self.created_bytes += bytes;
        self.chunks.insert(id, Chunk::new(bytes));
        self.holes.insert((bytes, id, 0));
        id
    }

    /// Puts an object at the start of a hole that the caller has removed from `holes`.
    pub(super) fn put(
        &mut self,
        request: &Request,
        chunk: ChunkId,
        offset: u64,
    ) -> Result<(), PlaceError> {
        let place = ObjectPlace {
            chunk,
            offset,
            len: request.len,
        };
        if self.places.insert(request.object, place).is_some() {
            return Err(PlaceError::Twice(request.object));
        }
        self.live_bytes += request.aligned;
        if let Some(into) = self.chunks.get_mut(&chunk)
            && let Some((at, rest)) = into.take(offset, request.aligned, request.object)
        {
            self.holes.insert((rest, chunk, at));
        }
        Ok(())
    }
}
