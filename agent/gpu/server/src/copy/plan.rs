//! Plans of transfers: objects cut into groups.

use tetris_store_layout::ObjectId;

use crate::arena::ChunkId;
use crate::residency::Copy;

/// Group size in bytes at the elbow that Torpor (4.3) found; [`super::elbow`] measures it for a
/// device.
pub const DEFAULT_GROUP_BYTES: u64 = 2 << 20;

/// Maximum gap in bytes between adjacent pieces: alignment leaves less between objects placed
/// together.
const MAX_GAP_BYTES: u64 = 512;

/// A part of an object, or all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// The object.
    pub object: ObjectId,
    /// Offset of the piece in the object, in bytes.
    pub from: u64,
    /// Destination, in bytes from the start of the group's chunk.
    pub to: u64,
    /// Its length in bytes.
    pub len: u64,
}

impl Piece {
    fn end(&self) -> u64 {
        self.to + self.len
    }
}

/// Adjacent pieces in one chunk, ordered by offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// The chunk.
    pub chunk: ChunkId,
    /// Its pieces, at least one.
    pub pieces: Vec<Piece>,
}

impl Group {
    /// Offset of the group in its chunk, in bytes.
    pub fn start(&self) -> u64 {
        self.pieces.first().map_or(0, |piece| piece.to)
    }

    /// Length from the first byte to the last, with the gaps between pieces, in bytes.
    pub fn span(&self) -> u64 {
        self.pieces.last().map_or(0, Piece::end) - self.start()
    }

    /// Sum of the pieces' lengths, in bytes.
    pub fn bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.len).sum()
    }

    /// Returns true if `piece` can join without the group's span exceeding `limit` bytes.
    fn takes(&self, chunk: ChunkId, piece: &Piece, limit: u64) -> bool {
        let end = self.start() + self.span();
        self.chunk == chunk
            && piece.to >= end
            && piece.to - end < MAX_GAP_BYTES
            && piece.end() - self.start() <= limit
    }
}

/// Groups in the order of copying.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TransferPlan {
    groups: Vec<Group>,
}

impl TransferPlan {
    /// Cuts `copies` into groups that span at most `group_bytes` (1 if it is 0), in the given
    /// order.
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

    /// Sum of all groups' lengths without gaps, in bytes.
    pub fn bytes(&self) -> u64 {
        self.groups.iter().map(Group::bytes).sum()
    }
}
