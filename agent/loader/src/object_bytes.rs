//! Bytes that lie anywhere, read by position, as one object.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use tetris_store_layout::{
    ObjectRef, PublishError, SEGMENT_BYTES, SegmentDigest, SegmentHasher, SegmentWriter, combine,
    segment_count, segment_len,
};

use crate::threads;

/// Bytes are copied out of the source in pieces of this length: a huge page, which the kernel zeroes first where it is
/// written in parts, and little enough to stay in a core's cache while it is hashed and written.
const PIECE_BYTES: usize = 2 << 20;

/// Copies the bytes at an offset of the source into the buffer.
pub type ReadBytes<'a, E> = &'a (dyn Fn(u64, &mut [u8]) -> Result<(), E> + Sync);

/// Takes bytes at an offset.
pub type WriteBytes<'a, E> = &'a (dyn Fn(u64, &[u8]) -> Result<(), E> + Sync);

/// Takes the bytes of one segment, in order.
pub enum SegmentSink<'s, E> {
    /// Hashes them.
    Hash(SegmentHasher),
    /// Hashes them and writes them to a staged object.
    Write(SegmentWriter<'s>),
    /// Passes them on with their offsets, beginning at the number. Nothing is hashed.
    Copy(u64, WriteBytes<'s, E>),
}

impl<E: From<PublishError>> SegmentSink<'_, E> {
    fn take(&mut self, bytes: &[u8]) -> Result<(), E> {
        match self {
            Self::Hash(hasher) => hasher.update(bytes),
            Self::Write(writer) => writer.write(bytes)?,
            Self::Copy(at, write) => {
                write(*at, bytes)?;
                *at += bytes.len() as u64;
            }
        }
        Ok(())
    }

    fn finish(self) -> Option<SegmentDigest> {
        match self {
            Self::Hash(hasher) => Some(hasher.finish()),
            Self::Write(writer) => Some(writer.finish()),
            Self::Copy(..) => None,
        }
    }
}

/// Puts every segment of `len` bytes into its own sink, over at most `threads` threads.
/// Returns the digests in order, none from sinks that only copy.
///
/// # Errors
/// The first error of the source or of a sink.
pub fn each_segment<'s, E: From<PublishError> + Send + 's>(
    len: u64,
    read: ReadBytes<'_, E>,
    threads: usize,
    sink: impl Fn(u64) -> SegmentSink<'s, E> + Sync,
) -> Result<Vec<SegmentDigest>, E> {
    let segments = segment_count(len);
    let next = AtomicU64::new(0);
    let digests = Mutex::new(Vec::new());
    threads::run(threads.min(segments as usize), || {
        let mut piece = vec![0; PIECE_BYTES.min(len as usize)];
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= segments {
                return Ok::<(), E>(());
            }
            let mut sink = sink(index);
            let mut at = index * SEGMENT_BYTES;
            let end = at + segment_len(len, index);
            while at < end {
                let wanted = (end - at).min(PIECE_BYTES as u64) as usize;
                let piece = piece.get_mut(..wanted).unwrap_or_default();
                read(at, piece)?;
                sink.take(piece)?;
                at += wanted as u64;
            }
            let mut digests = digests.lock().unwrap_or_else(PoisonError::into_inner);
            digests.extend(sink.finish().map(|digest| (index, digest)));
        }
    })?;
    let mut digests = digests.into_inner().unwrap_or_else(PoisonError::into_inner);
    digests.sort_unstable_by_key(|&(index, _)| index);
    Ok(digests.into_iter().map(|(_, digest)| digest).collect())
}

/// The object that `len` bytes of the source make.
///
/// # Errors
/// The first error of the source.
pub fn object_of<E: From<PublishError> + Send>(
    len: u64,
    read: ReadBytes<'_, E>,
    threads: usize,
) -> Result<ObjectRef, E> {
    let hash = |index| SegmentSink::Hash(SegmentHasher::new(len, index));
    Ok(named(len, &each_segment(len, read, threads, hash)?)?)
}

/// The object of `len` bytes that has these segments.
///
/// # Errors
/// [`PublishError::Length`] when the segments have another length.
pub fn named(len: u64, segments: &[SegmentDigest]) -> Result<ObjectRef, PublishError> {
    let found = segments.iter().map(SegmentDigest::len).sum();
    let (id, crc) = combine(segments)
        .filter(|_| found == len)
        .ok_or(PublishError::Length {
            expected: len,
            found,
        })?;
    Ok(ObjectRef { id, crc, len })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_named_and_copied_in_whatever_pieces_they_come() {
        let len = 2 * SEGMENT_BYTES + 4321;
        let bytes: Vec<u8> = (0..len).map(|at| (at % 253) as u8).collect();
        let read = |at: u64, to: &mut [u8]| {
            let begin = at as usize;
            to.copy_from_slice(&bytes[begin..begin + to.len()]);
            Ok::<(), PublishError>(())
        };
        assert_eq!(object_of(len, &read, 2).unwrap(), ObjectRef::of(&bytes));
        let copied = Mutex::new(vec![0; bytes.len()]);
        let write = |at: u64, piece: &[u8]| {
            let begin = at as usize;
            copied.lock().unwrap()[begin..begin + piece.len()].copy_from_slice(piece);
            Ok(())
        };
        let sink = |index| SegmentSink::Copy(index * SEGMENT_BYTES, &write);
        let digests = each_segment(len, &read, 2, sink).unwrap();
        assert!(digests.is_empty());
        assert_eq!(copied.into_inner().unwrap(), bytes);
    }

    #[test]
    fn an_error_of_the_source_ends_it() {
        let read = |_: u64, _: &mut [u8]| {
            Err::<(), _>(PublishError::Length {
                expected: 1,
                found: 0,
            })
        };
        let failed = object_of(10, &read, 2).unwrap_err();
        assert!(matches!(failed, PublishError::Length { .. }), "{failed}");
    }
}
