//! Memory files whose bytes and length can no longer change.

use std::io;
use std::os::fd::OwnedFd;

use tetris_loader::{MemoryFile, SegmentSink, each_segment};
use tetris_store_layout::{PublishError, SEGMENT_BYTES};

use crate::read_at::ReadAt;

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
/// seals it.
///
/// # Errors
/// As of [`MemoryFile`].
pub fn sealed_memory(len: u64, read_at: ReadAt<'_>, threads: usize) -> io::Result<OwnedFd> {
    let memory = MemoryFile::new(len)?;
    let read = |at: u64, buffer: &mut [u8]| {
        read_at(at, buffer);
        Ok::<(), CopyError>(())
    };
    let write = |at: u64, bytes: &[u8]| memory.write_at(bytes, at).map_err(CopyError::Write);
    let sink = |index| SegmentSink::Copy(index * SEGMENT_BYTES, &write);
    each_segment(len, &read, threads, sink).map_err(|error| match error {
        CopyError::Write(error) => error,
        CopyError::Publish(error) => io::Error::other(error),
    })?;
    memory.seal()
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read;
    use std::os::unix::fs::FileExt;

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
