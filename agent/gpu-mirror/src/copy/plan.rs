//! Which bytes go together.

use tetris_store_layout::ObjectId;

use crate::arena::ChunkId;
use crate::residency::Copy;

/// Where Torpor (4.3) found the elbow; see [`super::elbow`] for one's own.
pub const DEFAULT_GROUP_BYTES: u64 = 2 << 20;

/// Neighbours are at most this far apart: what alignment leaves between objects placed together.
const MAX_GAP_BYTES: u64 = 512;

/// A part of an object, or all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// The object.
    pub object: ObjectId,
    /// Where the piece begins in the object, in bytes.
    pub from: u64,
    /// Where it goes, in bytes from the beginning of the group's chunk.
    pub to: u64,
    /// Its length in bytes.
    pub len: u64,
}

impl Piece {
    fn end(&self) -> u64 {
        self.to + self.len
    }
}

/// Pieces that lie side by side in one chunk, by offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// The chunk.
    pub chunk: ChunkId,
    /// At least one.
    pub pieces: Vec<Piece>,
}

impl Group {
    /// Where the group begins in its chunk.
    pub fn start(&self) -> u64 {
        self.pieces.first().map_or(0, |piece| piece.to)
    }

    /// From the first byte to the last, with the gaps between pieces.
    pub fn span(&self) -> u64 {
        self.pieces.last().map_or(0, Piece::end) - self.start()
    }

    /// The bytes of its pieces.
    pub fn bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.len).sum()
    }

    /// Whether `piece` may join without the group's span exceeding `limit`.
    fn takes(&self, chunk: ChunkId, piece: &Piece, limit: u64) -> bool {
        let end = self.start() + self.span();
        self.chunk == chunk
            && piece.to >= end
            && piece.to - end < MAX_GAP_BYTES
            && piece.end() - self.start() <= limit
    }
}

/// Groups in the order in which they are to be copied.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TransferPlan {
    groups: Vec<Group>,
}

impl TransferPlan {
    /// Cuts `copies` into groups that span at most `group_bytes` (1 if it is 0), in the order given.
    pub fn new(copies: &[Copy], group_bytes: u64) -> Self {
        let limit = group_bytes.max(1);
        let mut groups: Vec<Group> = Vec::new();
        for copy in copies {
            let mut from = 0;
            while from < copy.place.len {
                let piece = Piece {
                    object: copy.object,
                    from,
                    to: copy.place.offset + from,
                    len: limit.min(copy.place.len - from),
                };
                from += piece.len;
                let chunk = copy.place.chunk;
                match groups.last_mut() {
                    Some(last) if last.takes(chunk, &piece, limit) => last.pieces.push(piece),
                    _ => groups.push(Group {
                        chunk,
                        pieces: vec![piece],
                    }),
                }
            }
        }
        Self { groups }
    }

    /// The groups.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// The bytes of all groups.
    pub fn bytes(&self) -> u64 {
        self.groups.iter().map(Group::bytes).sum()
    }
}
