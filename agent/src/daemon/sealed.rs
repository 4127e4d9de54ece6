//! Memory files whose bytes and length can no longer change.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::fs::{fallocate, fcntl_add_seals, ftruncate, memfd_create};
use rustix::io::Errno;
use tetris_loader::{SegmentSink, each_segment};
use tetris_store_layout::{PublishError, SEGMENT_BYTES};

use crate::read_at::ReadAt;

/// Name of the memory in `/proc/PID/maps` and `/proc/PID/fd`.
const NAME: &str = "tetris-publish";

/// Error of a copy.
enum CopyError {
    Write(io::Error),
    /// No sink publishes here.
    Publish(PublishError),
}

impl From<PublishError> for CopyError {
    fn from(error: PublishError) -> Self {
        Self::Publish(error)
    }
}

/// Copies the `len` bytes that `read_at` gives into a new memory file, by `threads` threads, and
/// seals it: no one can write to it any more, or change its length. It counts as this process's
/// memory until its last descriptor is closed, also one that a forked process inherited.
///
/// # Errors
/// The system's error: no memory, too many open files, or memory files forbidden (`vm.memfd_noexec`).
pub fn sealed_memory(len: u64, read_at: ReadAt<'_>, threads: usize) -> io::Result<OwnedFd> {
    let file = File::from(memory_file()?);
    ftruncate(&file, len)?;
    // Pages now, rather than a half that is filled.
    match fallocate(&file, FallocateFlags::empty(), 0, len) {
        Err(Errno::INTR) | Ok(()) => {}
        Err(error) => return Err(error.into()),
    }
    let read = |at: u64, buffer: &mut [u8]| {
        read_at(at, buffer);
        Ok::<(), CopyError>(())
    };
    let write = |at: u64, bytes: &[u8]| file.write_all_at(bytes, at).map_err(CopyError::Write);
    let sink = |index| SegmentSink::Copy(index * SEGMENT_BYTES, &write);
    each_segment(len, &read, threads, sink).map_err(|error| match error {
        CopyError::Write(error) => error,
        CopyError::Publish(error) => io::Error::other(error),
    })?;
    let seals = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    fcntl_add_seals(&file, seals)?;
    Ok(file.into())
}

fn memory_file() -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    match memfd_create(NAME, flags | MemfdFlags::NOEXEC_SEAL) {
        // Linux 6.3 has the flag.
        Err(Errno::INVAL) => Ok(memfd_create(NAME, flags)?),
        made => Ok(made?),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn sealed_memory_has_the_bytes_and_takes_no_others() {
        let len = SEGMENT_BYTES + 77;
        let bytes: Vec<u8> = (0..len).map(|at| (at % 241) as u8).collect();
        let read_at = |at: u64, to: &mut [u8]| {
            let begin = at as usize;
            to.copy_from_slice(&bytes[begin..begin + to.len()]);
        };
        let mut file = File::from(sealed_memory(len, &read_at, 2).unwrap());
        let mut content = Vec::new();
        file.read_to_end(&mut content).unwrap();
        assert_eq!(content, bytes);
        file.write_all_at(b"x", 0).unwrap_err();
        file.set_len(1).unwrap_err();
        file.set_len(len + 1).unwrap_err();
    }
}
