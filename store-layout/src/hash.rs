//! Hashing an object in segments, so that all cores can work on one object.
//!
//! BLAKE3 is a binary tree over the input: subtrees of a power of two can be hashed by different
//! threads and merged (BLAKE3 paper, section 2.1; `blake3::hazmat`). CRC-32 of a concatenation
//! follows from the CRCs of its parts. So segments are independent and the result is the plain
//! BLAKE3-256 and CRC-32 of the whole.

use blake3::hazmat::{
    ChainingValue, HasherExt, Mode, merge_subtrees_non_root, merge_subtrees_root,
};

use crate::digest::{Digest, ObjectId};

/// Length of every segment but an object's last, in bytes. A power of two, as BLAKE3's tree asks.
///
/// 4 MiB: two huge pages, a few milliseconds of work, and small enough that the last segments of a
/// model do not leave cores idle.
pub const SEGMENT_BYTES: u64 = 4 << 20;

const _: () = assert!(SEGMENT_BYTES.is_power_of_two() && SEGMENT_BYTES >= 1024);

/// Number of segments of an object of `object_len` bytes; an empty object has one, of length 0.
pub const fn segment_count(object_len: u64) -> u64 {
    if object_len == 0 {
        1
    } else {
        object_len.div_ceil(SEGMENT_BYTES)
    }
}

/// Length of segment `index` of an object of `object_len` bytes.
pub const fn segment_len(object_len: u64, index: u64) -> u64 {
    let start = index.saturating_mul(SEGMENT_BYTES);
    let rest = object_len.saturating_sub(start);
    if rest < SEGMENT_BYTES {
        rest
    } else {
        SEGMENT_BYTES
    }
}

/// The hashes of one segment.
#[derive(Debug, Clone)]
pub struct SegmentDigest {
    node: Node,
    crc: crc32fast::Hasher,
    len: u64,
}

#[derive(Debug, Clone, Copy)]
enum Node {
    /// The segment is the whole object.
    Root(blake3::Hash),
    /// The segment is a subtree.
    Subtree(ChainingValue),
    /// No byte of the segment was hashed, and a subtree has at least one.
    Missing,
}

impl SegmentDigest {
    /// Bytes hashed.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// True for the only segment of an empty object.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// Hashes the bytes of one segment, in order.
#[derive(Debug, Clone)]
pub struct SegmentHasher {
    blake3: blake3::Hasher,
    crc: crc32fast::Hasher,
    len: u64,
    whole_object: bool,
}

impl SegmentHasher {
    /// Hashes segment `index` of an object of `object_len` bytes.
    pub fn new(object_len: u64, index: u64) -> Self {
        let mut blake3 = blake3::Hasher::new();
        blake3.set_input_offset(index.saturating_mul(SEGMENT_BYTES));
        Self {
            blake3,
            crc: crc32fast::Hasher::new(),
            len: 0,
            whole_object: segment_count(object_len) == 1,
        }
    }

    /// Appends `bytes`; the segment's bytes together must not exceed [`segment_len`].
    pub fn update(&mut self, bytes: &[u8]) {
        self.len += bytes.len() as u64;
        // Beyond the segment BLAKE3 would panic; `combine` refuses the length instead.
        if self.whole_object || self.len <= SEGMENT_BYTES {
            self.blake3.update(bytes);
            self.crc.update(bytes);
        }
    }

    /// Ends the segment.
    pub fn finish(self) -> SegmentDigest {
        let node = if self.whole_object {
            Node::Root(self.blake3.finalize())
        } else if self.blake3.count() == 0 {
            Node::Missing
        } else {
            Node::Subtree(self.blake3.finalize_non_root())
        };
        SegmentDigest {
            node,
            crc: self.crc,
            len: self.len,
        }
    }
}

/// Identity and CRC-32 of the object whose segments, all of them and in order, are `segments`.
///
/// Returns `None` when the segments are not those of one object.
pub fn combine(segments: &[SegmentDigest]) -> Option<(ObjectId, u32)> {
    let (first, rest) = segments.split_first()?;
    let mut crc = first.crc.clone();
    for segment in rest {
        crc.combine(&segment.crc);
    }
    let full = segments.split_last().is_none_or(|(last, full)| {
        last.len <= SEGMENT_BYTES && full.iter().all(|segment| segment.len == SEGMENT_BYTES)
    });
    let hash = match first.node {
        Node::Root(hash) if rest.is_empty() => hash,
        Node::Subtree(_) if full && !rest.is_empty() => root(segments)?,
        _ => return None,
    };
    Some((ObjectId(Digest(*hash.as_bytes())), crc.finalize()))
}

/// Splits as BLAKE3 does: the left subtree is the largest power of two that leaves a right one.
fn split(segments: &[SegmentDigest]) -> Option<(&[SegmentDigest], &[SegmentDigest])> {
    let left = segments.len().div_ceil(2).next_power_of_two();
    segments.split_at_checked(left)
}

fn root(segments: &[SegmentDigest]) -> Option<blake3::Hash> {
    let (left, right) = split(segments)?;
    Some(merge_subtrees_root(
        &subtree(left)?,
        &subtree(right)?,
        Mode::Hash,
    ))
}

fn subtree(segments: &[SegmentDigest]) -> Option<ChainingValue> {
    match segments {
        [] => None,
        [one] => match one.node {
            Node::Subtree(value) => Some(value),
            Node::Root(_) | Node::Missing => None,
        },
        many => {
            let (left, right) = split(many)?;
            Some(merge_subtrees_non_root(
                &subtree(left)?,
                &subtree(right)?,
                Mode::Hash,
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(len: usize) -> Vec<u8> {
        (0..len).map(|i| (i * 31 + i / 251) as u8).collect()
    }

    fn segmented(bytes: &[u8]) -> Option<(ObjectId, u32)> {
        let digests: Vec<_> = (0..segment_count(bytes.len() as u64))
            .map(|index| {
                let start = (index * SEGMENT_BYTES) as usize;
                let len = segment_len(bytes.len() as u64, index) as usize;
                let mut hasher = SegmentHasher::new(bytes.len() as u64, index);
                for piece in bytes[start..start + len].chunks(100_000) {
                    hasher.update(piece);
                }
                hasher.finish()
            })
            .collect();
        combine(&digests)
    }

    #[test]
    fn segments_give_the_plain_digests_of_the_whole() {
        let segment = SEGMENT_BYTES as usize;
        for len in [
            0,
            1,
            1024,
            1025,
            segment - 1,
            segment,
            segment + 1,
            2 * segment,
            3 * segment,
            5 * segment + 777,
        ] {
            let bytes = pattern(len);
            let expected = (ObjectId::of(&bytes), crc32fast::hash(&bytes));
            assert_eq!(segmented(&bytes), Some(expected), "length {len}");
        }
    }

    #[test]
    fn segments_of_different_objects_do_not_combine() {
        let whole = SegmentHasher::new(10, 0).finish();
        let mut part = SegmentHasher::new(3 * SEGMENT_BYTES, 0);
        part.update(b"less than a segment");
        let part = part.finish();
        assert!(combine(&[]).is_none());
        assert!(combine(&[whole.clone(), whole]).is_none());
        assert!(combine(std::slice::from_ref(&part)).is_none());
        assert!(combine(&[part.clone(), part]).is_none(), "short segments");
        let mut long = SegmentHasher::new(3 * SEGMENT_BYTES, 1);
        long.update(&pattern(SEGMENT_BYTES as usize + 1));
        let long = long.finish();
        assert!(combine(&[long.clone(), long]).is_none(), "long segments");
    }
}
