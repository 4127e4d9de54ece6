//! Private memory, for bytes that the store cannot hold.

use std::io;
use std::ops::Range;

use memmap2::{MmapMut, MmapOptions};

/// Alignment of private bytes, the same as of tensors in packs.
pub const PRIVATE_ALIGN: usize = 64;
/// Length from which buffers get their own pages: the kernel hands them out already zero and takes
/// them back at once, where the heap would keep them for the life of a server.
const MAP_FROM: usize = 128 << 10;
/// Length up to which buffers get their pages at once, which takes half as long as a fault for each.
/// The pages of larger ones come from several threads at a time, as they are written.
const POPULATE_UP_TO: usize = 4 << 20;

/// Zeroed memory whose bytes start at a multiple of 64.
#[derive(Debug)]
pub struct PrivateBytes(Memory);

#[derive(Debug)]
enum Memory {
    Pages(MmapMut),
    Heap {
        buffer: Vec<u8>,
        range: Range<usize>,
    },
}

impl PrivateBytes {
    /// `len` zero bytes; `None` when there is no memory for them.
    ///
    /// Falls back to the heap, so that a process at its limit of mappings can still load.
    pub fn zeroed(len: u64) -> Option<Self> {
        let len = usize::try_from(len).ok()?;
        if len >= MAP_FROM
            && let Ok(pages) = map_pages(len)
        {
            return Some(Self(Memory::Pages(pages)));
        }
        let capacity = len.checked_add(PRIVATE_ALIGN)?;
        let mut buffer = Vec::new();
        buffer.try_reserve_exact(capacity).ok()?;
        buffer.resize(capacity, 0);
        let start = buffer
            .as_ptr()
            .align_offset(PRIVATE_ALIGN)
            .min(PRIVATE_ALIGN);
        let range = start..start + len;
        Some(Self(Memory::Heap { buffer, range }))
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        match &self.0 {
            Memory::Pages(pages) => pages,
            Memory::Heap { buffer, range } => buffer.get(range.clone()).unwrap_or_default(),
        }
    }

    /// The bytes for writing.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Memory::Pages(pages) => pages,
            Memory::Heap { buffer, range } => buffer.get_mut(range.clone()).unwrap_or_default(),
        }
    }
}

fn map_pages(len: usize) -> io::Result<MmapMut> {
    let mut pages = MmapOptions::new();
    pages.len(len);
    if len <= POPULATE_UP_TO {
        pages.populate();
    }
    pages.map_anon()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_aligned_and_zero() {
        for len in [0, 1, 63, 64, 100_000, MAP_FROM, MAP_FROM + 1] {
            let mut bytes = PrivateBytes::zeroed(len as u64).unwrap();
            assert_eq!(bytes.as_slice().len(), len);
            assert_eq!(bytes.as_mut_slice().len(), len);
            assert_eq!(bytes.as_slice().as_ptr() as usize % PRIVATE_ALIGN, 0);
            assert!(bytes.as_slice().iter().all(|&byte| byte == 0));
        }
    }

    #[test]
    fn absurd_lengths_are_refused() {
        assert!(PrivateBytes::zeroed(u64::MAX).is_none());
        assert!(PrivateBytes::zeroed(1 << 62).is_none());
    }
}
