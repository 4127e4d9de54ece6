//! Mappings of published objects: the only unsafe code of this crate.
#![expect(unsafe_code, reason = "mmap has no safe interface")]

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::os::unix::fs::MetadataExt;

use memmap2::{Advice, Mmap, MmapMut, MmapOptions};

/// How an object is mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Access {
    /// `PROT_READ, MAP_SHARED`: nobody can write through it.
    #[default]
    ReadOnly,
    /// `PROT_READ | PROT_WRITE, MAP_PRIVATE`: a write copies the page for this process alone, the
    /// store is not touched.
    CopyOnWrite,
}

/// The bytes of an object in this process's address space, and the reference to the object.
///
/// The mapping keeps the open file description alive that holds the reference lock (INV-3): as
/// long as this value lives, in any thread or forked child, the object is not reclaimed.
#[derive(Debug)]
pub struct Mapping {
    map: Map,
    /// Device and inode of the object's file. While it is mapped no other file has them.
    file: (u64, u64),
}

#[derive(Debug)]
enum Map {
    /// Nothing can be mapped with length 0; an empty object needs no bytes.
    Empty,
    ReadOnly(Mmap),
    CopyOnWrite(MmapMut),
}

impl Mapping {
    /// Maps `len` bytes of `file`, which must be a locked, sealed object of at least that length.
    ///
    /// Called by `map.rs` alone, after steps M1 to M3 of LAYOUT.md 5.2.
    pub(crate) fn of_locked_object(file: &File, len: usize, access: Access) -> io::Result<Self> {
        let metadata = file.metadata()?;
        let mut options = MmapOptions::new();
        // Copy-on-write needs no reservation: hardly any page will be copied, and reserving a whole
        // model per process would be refused where overcommit is strict.
        options.len(len).no_reserve_swap();
        let map = match access {
            _ if len == 0 => Map::Empty,
            Access::ReadOnly => {
                // SAFETY: the object has a name and is locked for reading, so its bytes are never
                // written, truncated or extended (INV-2) and stay allocated while mapped (INV-3).
                Map::ReadOnly(unsafe { options.map(file) }?)
            }
            Access::CopyOnWrite => {
                // SAFETY: as above for the object's bytes; writes go to private copies of pages,
                // which belong to this value alone.
                Map::CopyOnWrite(unsafe { options.map_copy(file) }?)
            }
        };
        let file = (metadata.dev(), metadata.ino());
        Ok(Self { map, file })
    }

    /// Device and inode of the object's file.
    pub(crate) fn file(&self) -> (u64, u64) {
        self.file
    }

    /// How the object is mapped.
    pub fn access(&self) -> Access {
        match self.map {
            Map::Empty | Map::ReadOnly(_) => Access::ReadOnly,
            Map::CopyOnWrite(_) => Access::CopyOnWrite,
        }
    }

    /// The bytes for writing, if the mapping is [`Access::CopyOnWrite`].
    pub fn as_mut_slice(&mut self) -> Option<&mut [u8]> {
        match &mut self.map {
            Map::Empty => Some(&mut []),
            Map::ReadOnly(_) => None,
            Map::CopyOnWrite(map) => Some(map),
        }
    }

    /// Fills the page tables now, so that the first access does not fault (madvise(2),
    /// `MADV_POPULATE_READ`). Without effect on kernels before 5.14.
    pub fn prefault(&self) {
        let _unsupported = match &self.map {
            Map::Empty => Ok(()),
            Map::ReadOnly(map) => map.advise(Advice::PopulateRead),
            Map::CopyOnWrite(map) => map.advise(Advice::PopulateRead),
        };
    }
}

impl Deref for Mapping {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.map {
            Map::Empty => &[],
            Map::ReadOnly(map) => map,
            Map::CopyOnWrite(map) => map,
        }
    }
}
