//! Placing objects, all of them or none.

use tetris_store_layout::ObjectId;
use thiserror::Error;

use super::chunk::Chunk;
use super::{Arena, ChunkId, Place};

/// A chunk to be created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewChunk {
    /// Its name in the arena.
    pub id: ChunkId,
    /// Its length, a multiple of the granule.
    pub bytes: u64,
}

/// Where objects went.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Placement {
    /// Their places, in the order in which they were given.
    pub places: Vec<Place>,
    /// The chunks that did not exist before.
    pub created: Vec<NewChunk>,
}

/// Objects could not be placed; the arena is as it was.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PlaceError {
    /// The arena would have to grow by more than it may.
    #[error(
        "expected to grow by at most {room_bytes} bytes, found that {need_bytes} are needed; make room first"
    )]
    NoRoom {
        /// Bytes of the chunks that would be needed.
        need_bytes: u64,
        /// Bytes that may be taken.
        room_bytes: u64,
    },
    /// The object has a place already.
    #[error("object {0} has a place already; place each once")]
    Twice(ObjectId),
    /// The object has no bytes, or more than can be addressed.
    #[error(
        "expected an object of 1 to 2^62 bytes, found {len} bytes in object {object}; leave it out"
    )]
    Length {
        /// The object.
        object: ObjectId,
        /// Its length.
        len: u64,
    },
}

/// More than any device has, and small enough that sums of two do not overflow.
const MAX_BYTES: u64 = 1 << 62;

struct Request {
    object: ObjectId,
    len: u64,
    aligned: u64,
}

impl Arena {
    /// Places `objects` (with their lengths in bytes), in this order as far as they come to lie side by side. The arena grows by
    /// at most `room_bytes`. All of them are placed, or none.
    pub fn place(
        &mut self,
        objects: &[(ObjectId, u64)],
        room_bytes: u64,
    ) -> Result<Placement, PlaceError> {
        let (requests, total) = self.check(objects)?;
        let waste = self.created_bytes - self.live_bytes;
        let little = total < self.config.chunk_bytes() / 16;
        let first = little || waste > self.config.waste_limit(self.live_bytes);
        let placed = self.attempt(&requests, room_bytes, first);
        let (trial, placement) = match placed {
            Err(_) if !first => self.attempt(&requests, room_bytes, true)?,
            placed => placed?,
        };
        *self = trial;
        Ok(placement)
    }

    /// What each object takes, and all of them.
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

    /// The arena as it would be.
    fn attempt(
        &self,
        requests: &[Request],
        room_bytes: u64,
        fill_holes: bool,
    ) -> Result<(Self, Placement), PlaceError> {
        let mut trial = self.clone();
        let mut left = Vec::new();
        for request in requests {
            if !(fill_holes && trial.fill(request)?) {
                left.push(request);
            }
        }
        let created = trial.grow(&left)?;
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

    /// Puts an object in the smallest hole that is large enough.
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

    /// A new chunk for `batch`, which takes `batch_bytes`.
    fn chunk_for(&mut self, batch: &[&Request], batch_bytes: u64) -> Result<NewChunk, PlaceError> {
        let bytes = batch_bytes.next_multiple_of(self.config.granule_bytes());
        let id = ChunkId(self.next_chunk);
        self.next_chunk += 1;
        self.created_bytes += bytes;
        self.chunks.insert(id, Chunk::new(bytes));
        self.holes.insert((bytes, id, 0));
        let mut offset = 0;
        for request in batch {
            self.holes.remove(&(bytes - offset, id, offset));
            self.put(request, id, offset)?;
            offset += request.aligned;
        }
        Ok(NewChunk { id, bytes })
    }

    /// Puts an object at the beginning of a hole that is no longer listed.
    fn put(&mut self, request: &Request, chunk: ChunkId, offset: u64) -> Result<(), PlaceError> {
        let place = Place {
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
