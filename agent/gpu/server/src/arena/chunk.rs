//! One chunk: its objects and its holes.

use std::collections::BTreeMap;

use tetris_store_layout::ObjectId;

#[derive(Debug, Clone)]
pub(super) struct Chunk {
    pub bytes: u64,
    /// Aligned bytes of the objects.
    pub live_bytes: u64,
    /// Objects by offset in bytes.
    pub objects: BTreeMap<u64, ObjectId>,
    /// Holes: offset to length, both in bytes. No two holes are adjacent.
    pub holes: BTreeMap<u64, u64>,
}

/// A hole after merging, and the holes that it absorbed.
#[derive(Debug)]
pub(super) struct Merged {
    pub offset: u64,
    pub len: u64,
    /// Offset and length of each absorbed hole.
    pub absorbed: Vec<(u64, u64)>,
}

impl Chunk {
    /// A chunk that is one hole.
    pub fn new(bytes: u64) -> Self {
        Self {
            bytes,
            live_bytes: 0,
            objects: BTreeMap::new(),
            holes: BTreeMap::from([(0, bytes)]),
        }
    }

    /// Puts an object at the start of the hole at `offset`. Returns the rest of the hole, if any.
    pub fn take(&mut self, offset: u64, aligned: u64, object: ObjectId) -> Option<(u64, u64)> {
        let hole = self.holes.remove(&offset)?;
        self.objects.insert(offset, object);
        self.live_bytes += aligned;
        let rest = hole.checked_sub(aligned).filter(|rest| *rest > 0)?;
        self.holes.insert(offset + aligned, rest);
        Some((offset + aligned, rest))
    }

    /// Turns the object at `offset` into a hole and merges it with adjacent holes.
    pub fn free(&mut self, offset: u64, aligned: u64) -> Merged {
        self.objects.remove(&offset);
        self.live_bytes = self.live_bytes.saturating_sub(aligned);
        let mut merged = Merged {
            offset,
            len: aligned,
            absorbed: Vec::new(),
        };
        let before = self.holes.range(..offset).next_back();
        if let Some((at, len)) = before.map(|(at, len)| (*at, *len))
            && at + len == offset
        {
            merged.absorbed.push((at, len));
            merged.offset = at;
            merged.len += len;
        }
        let end = offset + aligned;
        if let Some(len) = self.holes.get(&end).copied() {
            merged.absorbed.push((end, len));
            merged.len += len;
        }
        for (at, _) in &merged.absorbed {
            self.holes.remove(at);
        }
        self.holes.insert(merged.offset, merged.len);
        merged
    }
}
