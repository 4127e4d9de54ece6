//! Growth by chunks of one length (A6), so that a chunk that exists fits whatever comes next.

use super::place::{NewChunk, PlaceError, Request};
use super::{Arena, ChunkId};

impl Arena {
    /// Index of the first request of the last chunk, if the requests get separate chunks one
    /// after the other.
    pub(super) fn rest(&self, requests: &[Request]) -> usize {
        let (mut first, mut bytes) = (0, 0);
        for (at, request) in requests.iter().enumerate() {
            if request.aligned > self.config.chunk_bytes() {
                continue;
            }
            if bytes + request.aligned > self.config.chunk_bytes() {
                (first, bytes) = (at, 0);
            }
            bytes += request.aligned;
        }
        first
    }

    /// Puts objects into new chunks of the full length. Later objects fill what earlier ones leave.
    /// Chunks that are not even three quarters full are cut to their content, except the last one,
    /// which the next placement fills.
    pub(super) fn grow_whole(
        &mut self,
        requests: &[&Request],
    ) -> Result<Vec<NewChunk>, PlaceError> {
        let chunk_bytes = self.config.chunk_bytes();
        let first = ChunkId(self.next_chunk);
        let mut created = Vec::new();
        for request in requests {
            if request.aligned > chunk_bytes {
                created.push(self.chunk_for(&[request], request.aligned)?);
                continue;
            }
            let (len, chunk, offset) =
                self.hole_from(first, request.aligned).unwrap_or_else(|| {
                    let id = self.chunk_of(chunk_bytes);
                    created.push(NewChunk {
                        id,
                        bytes: chunk_bytes,
                    });
                    (chunk_bytes, id, 0)
                });
            self.holes.remove(&(len, chunk, offset));
            self.put(request, chunk, offset)?;
        }
        if let Some((_, others)) = created.split_last_mut() {
            for chunk in others {
                self.cut(chunk);
            }
        }
        Ok(created)
    }

    /// The smallest hole of at least `bytes` in the chunks from `first` on.
    fn hole_from(&self, first: ChunkId, bytes: u64) -> Option<(u64, ChunkId, u64)> {
        let mut holes = self.holes.range((bytes, first, 0)..);
        holes.find(|(_, chunk, _)| *chunk >= first).copied()
    }

    /// Cuts a chunk to its content if it is not three quarters full.
    fn cut(&mut self, chunk: &mut NewChunk) {
        let granule = self.config.granule_bytes();
        let Some(inside) = self.chunks.get_mut(&chunk.id) else {
            return;
        };
        let wasted = chunk.bytes - inside.live_bytes;
        if wasted <= chunk.bytes / 4 {
            return;
        }
        let last = inside.holes.iter().next_back();
        let Some((offset, len)) = last.map(|(offset, len)| (*offset, *len)) else {
            return;
        };
        let end = offset.next_multiple_of(granule);
        if offset + len != chunk.bytes || end >= chunk.bytes {
            return;
        }
        self.holes.remove(&(len, chunk.id, offset));
        inside.holes.remove(&offset);
        if end > offset {
            inside.holes.insert(offset, end - offset);
            self.holes.insert((end - offset, chunk.id, offset));
        }
        inside.bytes = end;
        self.created_bytes -= chunk.bytes - end;
        chunk.bytes = end;
    }
}
