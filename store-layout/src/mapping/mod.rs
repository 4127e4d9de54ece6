//! Mappings of published objects, and the page cache of files: the only unsafe code of this crate.
#![expect(
    unsafe_code,
    reason = "mmap, mprotect and mincore have no safe interface"
)]

mod page_cache;

use std::fs::File;
use std::io;
use std::ops::{Deref, Range};
use std::os::unix::fs::MetadataExt;
use std::ptr::NonNull;

use memmap2::{Advice, Mmap, MmapMut, MmapOptions};
use nix::sys::mman::{ProtFlags, mprotect};

use crate::access::Access;
use crate::locked_object::LockedObject;

pub use page_cache::cached_bytes;

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
    /// Of a file that is open for writing.
    Registrable(Mmap),
}

impl Mapping {
    /// Maps the bytes of a locked object.
    pub(crate) fn of_locked_object(object: &LockedObject) -> io::Result<Self> {
        let (file, len) = (object.file(), object.len());
        let mut options = MmapOptions::new();
        // Copy-on-write needs no reservation: hardly any page will be copied, and reserving a whole
        // model per process would be refused where overcommit is strict.
        options.len(len).no_reserve_swap();
        let map = match object.access() {
            _ if len == 0 => Map::Empty,
            Access::ReadOnly => {
                // SAFETY: a `LockedObject` has passed M1 to M3: it has a name, `len` bytes, and our read
                // lock. So its bytes are never written, truncated or extended (INV-2), and stay
                // allocated while mapped (INV-3).
                Map::ReadOnly(unsafe { options.map(file) }?)
            }
            Access::CopyOnWrite => {
                // SAFETY: as above for the object's bytes; writes go to private copies of pages,
                // which belong to this value alone.
                Map::CopyOnWrite(unsafe { options.map_copy(file) }?)
            }
            Access::Registrable => {
                // SAFETY: as for read-only ones. The pages could be made writable, which changes nothing:
                // only `while_writable` does that, and nothing writes to them meanwhile.
                Map::Registrable(unsafe { options.map(file) }?)
            }
        };
        Ok(Self {
            map,
            file: object.inode(),
        })
    }

    /// Maps `len` bytes of a staged file for reading, to see which pages it has.
    ///
    /// Called by `pages.rs` alone, for a file written in full, whose staging outlives the mapping and is then dropped.
    pub(crate) fn of_staging(file: &File, len: usize) -> io::Result<Self> {
        let metadata = file.metadata()?;
        let mut options = MmapOptions::new();
        // SAFETY: the file has no name and its description is that staging's, which writes no more: no one else can open,
        // write or truncate it, and it stays allocated while it is mapped.
        let map = unsafe { options.len(len).map(file) }?;
        Ok(Self {
            map: Map::ReadOnly(map),
            file: (metadata.dev(), metadata.ino()),
        })
    }

    /// Device and inode of the object's file.
    pub(crate) fn file(&self) -> (u64, u64) {
        self.file
    }

    /// Access of this mapping.
    pub fn access(&self) -> Access {
        match self.map {
            Map::Empty | Map::ReadOnly(_) => Access::ReadOnly,
            Map::CopyOnWrite(_) => Access::CopyOnWrite,
            Map::Registrable(_) => Access::Registrable,
        }
    }

    /// Runs `run` while the pages of `part` of an [`Access::Registrable`] mapping may be written, and takes that back in any case, also when
    /// `run` panics. For one purpose: unless a driver declares that it only reads pages, which not every device lets it say, the kernel pins
    /// them for it only where they could be written. What was pinned stays so afterwards. **Nothing may write to them** (INV-2), neither `run` nor
    /// the device; the bytes of `part` are lent for reading. A part begins at a page, and ends at one or with the mapping: the cost of a
    /// call is that of its pages.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`] for other mappings, [`io::ErrorKind::InvalidInput`] for a part outside of the mapping, and what
    /// the kernel allows; `run` has not run then, or its result is lost.
    pub fn while_writable<R>(
        &self,
        part: Range<usize>,
        run: impl FnOnce(&[u8]) -> R,
    ) -> io::Result<R> {
        let Map::Registrable(map) = &self.map else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let pages = map.get(part.clone()).filter(|pages| !pages.is_empty());
        let pages = pages.ok_or(io::ErrorKind::InvalidInput)?;
        // A page that is looked up for writing first would change the file's times, and the window would be longer.
        // Without effect on kernels before 5.14.
        let _unsupported = map.advise_range(Advice::PopulateRead, part.start, pages.len());
        let writable = Writable::new(pages)?;
        let result = run(pages);
        writable.end()?;
        Ok(result)
    }

    /// The bytes for writing, if the mapping is [`Access::CopyOnWrite`].
    pub fn as_mut_slice(&mut self) -> Option<&mut [u8]> {
        match &mut self.map {
            Map::Empty => Some(&mut []),
            Map::ReadOnly(_) | Map::Registrable(_) => None,
            Map::CopyOnWrite(map) => Some(map),
        }
    }

    /// Fills the page tables now, so that the first access does not fault (madvise(2),
    /// `MADV_POPULATE_READ`). Without effect on kernels before 5.14.
    pub fn prefault(&self) {
        let _unsupported = match &self.map {
            Map::Empty => Ok(()),
            Map::ReadOnly(map) | Map::Registrable(map) => map.advise(Advice::PopulateRead),
            Map::CopyOnWrite(map) => map.advise(Advice::PopulateRead),
        };
    }
}

impl Deref for Mapping {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.map {
            Map::Empty => &[],
            Map::ReadOnly(map) | Map::Registrable(map) => map,
            Map::CopyOnWrite(map) => map,
        }
    }
}

/// Pages that may be written until this is dropped.
struct Writable<'a>(Option<&'a [u8]>);

impl<'a> Writable<'a> {
    /// `pages` are a part of an [`Access::Registrable`] mapping, to the end of whose last page nothing else lies.
    fn new(pages: &'a [u8]) -> io::Result<Self> {
        // An attempt that fails may have changed some of the pages.
        let writable = Self(Some(pages));
        protect(pages, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE)?;
        Ok(writable)
    }

    fn end(mut self) -> io::Result<()> {
        self.0
            .take()
            .map_or(Ok(()), |pages| protect(pages, ProtFlags::PROT_READ))
    }
}

impl Drop for Writable<'_> {
    fn drop(&mut self) {
        if let Some(pages) = self.0 {
            let _nothing_to_do = protect(pages, ProtFlags::PROT_READ);
        }
    }
}

/// Sets the permitted access to pages of a mapping.
fn protect(pages: &[u8], protection: ProtFlags) -> io::Result<()> {
    let start = NonNull::from(pages).cast();
    // SAFETY: the range is a part of a mapping that lives, and the kernel refuses one that does not begin at a page. Its last page
    // is the mapping's too. It stays readable, so slices of it stay valid; being writable changes no byte, and there is no `&mut`
    // to any of them.
    Ok(unsafe { mprotect(start, pages.len(), protection) }?)
}

#[cfg(test)]
mod tests;
