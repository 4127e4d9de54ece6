//! Memory files whose bytes and length can no longer change, once they are sealed.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::fs::{fallocate, fcntl_add_seals, ftruncate, memfd_create};
use rustix::io::Errno;

/// Name of the memory in `/proc/PID/maps` and `/proc/PID/fd`.
const NAME: &str = "tetris-publish";

/// A memory file in the making, for the node's daemon. It counts as this process's memory until its last
/// descriptor is closed, also one that a forked process inherited.
#[derive(Debug)]
pub struct MemoryFile {
    file: File,
    len: u64,
}

impl MemoryFile {
    /// Makes one of `len` bytes, with pages for all of them.
    ///
    /// # Errors
    /// The system's error: no memory, too many open files, or memory files forbidden (`vm.memfd_noexec`).
    pub fn new(len: u64) -> io::Result<Self> {
        let file = File::from(memory_file()?);
        ftruncate(&file, len)?;
        // Pages now, rather than a half-filled file.
        match fallocate(&file, FallocateFlags::empty(), 0, len) {
            Err(Errno::INTR) | Ok(()) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(Self { file, len })
    }

    /// Makes one of these parts, one after the other, and seals it.
    ///
    /// # Errors
    /// As of [`MemoryFile::new`] and [`MemoryFile::seal`].
    pub fn sealed(parts: &[&[u8]]) -> io::Result<OwnedFd> {
        let memory = Self::new(parts.iter().map(|part| part.len() as u64).sum())?;
        let mut at = 0;
        for part in parts {
            memory.write_at(part, at)?;
            at += part.len() as u64;
        }
        memory.seal()
    }

    /// Length in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns true if it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Writes `bytes` at `offset`.
    ///
    /// # Errors
    /// The system's error.
    pub fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    /// Reads the bytes at `offset` into `buffer`.
    ///
    /// # Errors
    /// The system's error.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }

    /// Seals it: no one can write to it any more, or change its length.
    ///
    /// # Errors
    /// The system's error.
    pub fn seal(self) -> io::Result<OwnedFd> {
        let seals = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
        fcntl_add_seals(&self.file, seals)?;
        Ok(self.file.into())
    }
}

fn memory_file() -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    match memfd_create(NAME, flags | MemfdFlags::NOEXEC_SEAL) {
        // Linux 6.3 has the flag.
        Err(Errno::INVAL) => Ok(memfd_create(NAME, flags)?),
        made => Ok(made?),
    }
}
