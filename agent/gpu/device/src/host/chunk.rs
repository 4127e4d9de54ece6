//! Chunks as memfds, and their mappings: the only unsafe code of the simulated device.
#![expect(
    unsafe_code,
    reason = "memory that several processes map has no safe interface"
)]

use std::fmt;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{
    FallocateFlags, FlockOperation, MemfdFlags, Mode, OFlags, SealFlags, fallocate,
    fcntl_add_seals, fcntl_get_seals, flock, fstat, ftruncate,
};

use crate::bounds::{check_copy, check_inside};
use crate::{Mapped, MemoryError, Protection};

/// Seals of the length: otherwise another process could shrink the file under a mapping, and SIGBUS
/// would kill its reader.
const LENGTH_SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);

/// Time for which a chunk may have a user although its importers have let go of it: the kernel, or a
/// process that looks at the descriptors of others, can have the file a moment longer.
const LETTING_GO: Duration = Duration::from_millis(100);
/// Pause before the next look.
const LETTING_GO_PAUSE: Duration = Duration::from_millis(1);

/// Addresses without memory. The kernel chooses the address of a mapping, so only the length is
/// kept.
#[derive(Debug)]
pub struct HostRange {
    pub(super) bytes: u64,
}

/// A memfd.
#[derive(Debug, Clone)]
pub struct HostChunk(pub(super) Arc<Inner>);

#[derive(Debug)]
pub(super) struct Inner {
    pub file: OwnedFd,
    pub bytes: u64,
    /// Writable mapping of the creator, made before the seal that forbids further ones.
    writable: Option<Arc<MmapRaw>>,
    /// Bytes in use on the device; the drop of this chunk subtracts its own.
    used: Option<Arc<AtomicU64>>,
    /// Held during each access through this process's mappings, so that no two accesses race.
    access: Mutex<()>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(used) = &self.used {
            used.fetch_sub(self.bytes, Ordering::Relaxed);
        }
    }
}

impl HostChunk {
    /// Creates a memfd of `bytes`, which `used` already includes.
    pub(super) fn create(bytes: u64, used: Arc<AtomicU64>) -> Result<Self, MemoryError> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = rustix::fs::memfd_create("tetris-device-chunk", flags)
            .map_err(|source| MemoryError::io("create a memfd", source));
        let file = file.and_then(|file| {
            ftruncate(&file, bytes).map_err(|source| MemoryError::io("size a memfd", source))?;
            fcntl_add_seals(&file, LENGTH_SEALS)
                .map_err(|source| MemoryError::io("seal a memfd's length", source))?;
            flock(&file, FlockOperation::LockShared)
                .map_err(|source| MemoryError::io("lock a memfd", source))?;
            let map = MmapOptions::new()
                .len(bytes as usize)
                .map_raw(&file)
                .map_err(|source| MemoryError::io("map a memfd", source))?;
            Ok((file, map))
        });
        // From here on the drop of the chunk subtracts its bytes; before, this function must.
        let (file, map) = file.inspect_err(|_| {
            used.fetch_sub(bytes, Ordering::Relaxed);
        })?;
        Ok(Self(Arc::new(Inner {
            file,
            bytes,
            writable: Some(Arc::new(map)),
            used: Some(used),
            access: Mutex::new(()),
        })))
    }

    /// Opens the file anew. Its creator's open file description is locked, and stays so while any
    /// process has a descriptor or a mapping of it.
    pub(super) fn witness(&self) -> Result<Witness, MemoryError> {
        let path = format!("/proc/self/fd/{}", self.0.file.as_raw_fd());
        rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .map(Witness)
            .map_err(|source| MemoryError::io("open a memfd anew", source))
    }

    /// Exports a descriptor of the same file. From then on no process can map it for writing.
    pub(super) fn export(&self) -> Result<OwnedFd, MemoryError> {
        if self.0.writable.is_some() {
            fcntl_add_seals(&self.0.file, SealFlags::FUTURE_WRITE)
                .map_err(|source| MemoryError::io("seal a memfd against writing", source))?;
        }
        self.0
            .file
            .try_clone()
            .map_err(|source| MemoryError::io("duplicate a memfd", source))
    }

    /// Imports a memfd with a fixed length that cannot be mapped for writing.
    pub(super) fn import(file: OwnedFd, bytes: u64) -> Result<Self, MemoryError> {
        let refuse = |reason: String| MemoryError::Import { reason };
        let seals = fcntl_get_seals(&file)
            .map_err(|source| refuse(format!("expected a memfd, found no seals: {source}")))?;
        let wanted = LENGTH_SEALS | SealFlags::FUTURE_WRITE;
        if !seals.contains(wanted) {
            return Err(refuse(format!(
                "expected the seals {wanted:?}, found {seals:?}"
            )));
        }
        let stat = fstat(&file).map_err(|source| MemoryError::io("stat a memfd", source))?;
        if u64::try_from(stat.st_size) != Ok(bytes) {
            let found = stat.st_size;
            return Err(refuse(format!("expected {bytes} bytes, found {found}")));
        }
        Ok(Self(Arc::new(Inner {
            file,
            bytes,
            writable: None,
            used: None,
            access: Mutex::new(()),
        })))
    }

    /// Maps the chunk.
    pub(super) fn map(&self, protection: Protection) -> Result<HostMapping, MemoryError> {
        let mut options = MmapOptions::new();
        options.len(self.0.bytes as usize);
        let map = match (protection, &self.0.writable) {
            (Protection::ReadWrite, Some(map)) => Ok(Arc::clone(map)),
            (Protection::ReadWrite, None) => options.map_raw(&self.0.file).map(Arc::new),
            (Protection::ReadOnly, _) => options.map_raw_read_only(&self.0.file).map(Arc::new),
        };
        Ok(HostMapping {
            chunk: self.clone(),
            map: map.map_err(|source| MemoryError::io("map a memfd", source))?,
            protection,
        })
    }
}

/// A file that was opened anew, to see whether others still have it.
pub(super) struct Witness(OwnedFd);

impl Witness {
    /// Returns true if no one has a descriptor or a mapping of the chunk, now or within
    /// [`LETTING_GO`].
    pub(super) fn is_alone(&self) -> bool {
        let end = Instant::now() + LETTING_GO;
        loop {
            if flock(&self.0, FlockOperation::NonBlockingLockExclusive).is_ok() {
                return true;
            }
            if Instant::now() >= end {
                return false;
            }
            thread::sleep(LETTING_GO_PAUSE);
        }
    }
}

/// A chunk mapped in this process.
pub struct HostMapping {
    chunk: HostChunk,
    map: Arc<MmapRaw>,
    protection: Protection,
}

impl HostMapping {
    /// Writes `from` at `offset`.
    pub(super) fn write(&self, offset: u64, from: &[u8]) -> Result<(), MemoryError> {
        check_copy(self.protection, offset, from.len(), self.bytes())?;
        let _access = self.access();
        let to = self.map.as_mut_ptr().wrapping_add(offset as usize);
        // SAFETY: the destination is inside the mapping, which lives as long as `self` and is
        // writable by its protection; `from` is separate memory, because no slice of the mapping is
        // ever made; the lock excludes this process's other accesses. The file cannot shrink (its
        // seal).
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
        Ok(())
    }

    /// Sets all bytes to `byte`.
    pub(super) fn fill(&self, byte: u8) -> Result<(), MemoryError> {
        const PIECE: u64 = 1 << 20;
        let piece = vec![byte; PIECE as usize];
        let mut offset = 0;
        while offset < self.bytes() {
            let length = PIECE.min(self.bytes() - offset);
            let bytes = piece.get(..length as usize).unwrap_or_default();
            self.write(offset, bytes)?;
            offset += length;
        }
        Ok(())
    }

    /// Sets all bytes to zero, which gives their pages back. A chunk that was exported cannot be
    /// cleared.
    pub(super) fn clear(&self) -> Result<(), MemoryError> {
        check_copy(self.protection, 0, 0, self.bytes())?;
        let _access = self.access();
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(&self.chunk.0.file, hole, 0, self.bytes())
            .map_err(|source| MemoryError::io("clear a memfd", source))
    }

    /// Reads from `offset` into `to`.
    pub(super) fn read(&self, offset: u64, to: &mut [u8]) -> Result<(), MemoryError> {
        check_inside(offset, to.len() as u64, self.bytes())?;
        let _access = self.access();
        let from = self.map.as_ptr().wrapping_add(offset as usize);
        // SAFETY: the source is inside the mapping, which lives as long as `self`; `to` is separate
        // memory, and the lock excludes this process's writers. The file cannot shrink: its creator
        // sealed it, and `import` has checked that.
        unsafe { ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) };
        Ok(())
    }

    fn access(&self) -> std::sync::MutexGuard<'_, ()> {
        let access = self.chunk.0.access.lock();
        access.unwrap_or_else(PoisonError::into_inner)
    }
}

impl Mapped for HostMapping {
    fn address(&self) -> u64 {
        self.map.as_ptr() as u64
    }

    fn bytes(&self) -> u64 {
        self.chunk.0.bytes
    }

    fn protection(&self) -> Protection {
        self.protection
    }
}

impl fmt::Debug for HostMapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostMapping")
            .field("bytes", &self.bytes())
            .field("protection", &self.protection)
            .finish_non_exhaustive()
    }
}
