//! Bytes of a file read before its ctime could be relied on.
//!
//! Two changes of a file within one tick of the clock have one ctime. So a file that was changed a
//! moment ago may change once more, unseen. A load does not wait until the clock has moved on: it
//! notes the bytes that it read early, reads them again at the end and compares (INV-10).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use tetris_store_layout::Digest;

/// A range that was read too early.
#[derive(Debug)]
struct Early {
    offset: u64,
    len: usize,
    digest: Digest,
}

/// The reliability of a file's ctime, and the ranges read before.
#[derive(Debug, Default)]
pub(crate) struct Settling {
    settled: AtomicBool,
    early: Mutex<Vec<Early>>,
}

impl Settling {
    /// Returns true if every change since [`Settling::settle`] has given the file another ctime.
    pub(crate) fn is_settled(&self) -> bool {
        self.settled.load(Ordering::Acquire)
    }

    /// Notes that the ctime can be relied on from now on.
    pub(crate) fn settle(&self) {
        self.settled.store(true, Ordering::Release);
    }

    /// Notes bytes that were read early.
    pub(crate) fn note(&self, offset: u64, bytes: &[u8]) {
        let early = Early {
            offset,
            len: bytes.len(),
            digest: Digest::of(bytes),
        };
        let mut all = self.early.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(early);
    }

    /// Returns true if `read_at` finds all early bytes as they were.
    pub(crate) fn is_as_noted<E>(
        &self,
        mut read_at: impl FnMut(&mut [u8], u64) -> Result<(), E>,
    ) -> Result<bool, E> {
        let all = self.early.lock().unwrap_or_else(PoisonError::into_inner);
        let mut buffer = Vec::new();
        for early in all.iter() {
            buffer.resize(early.len, 0);
            read_at(&mut buffer, early.offset)?;
            if Digest::of(&buffer) != early.digest {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader(content: &[u8]) -> impl FnMut(&mut [u8], u64) -> Result<(), ()> {
        move |buffer, offset| {
            let begin = offset as usize;
            let part = content.get(begin..begin + buffer.len()).ok_or(())?;
            buffer.copy_from_slice(part);
            Ok(())
        }
    }

    #[test]
    fn a_change_of_what_was_read_early_is_found() {
        let settling = Settling::default();
        settling.note(0, b"abc");
        settling.note(5, b"fgh");
        assert_eq!(settling.is_as_noted(reader(b"abcdefgh")), Ok(true));
        assert_eq!(settling.is_as_noted(reader(b"abc--fgh")), Ok(true));
        assert_eq!(settling.is_as_noted(reader(b"abcdefgH")), Ok(false));
        assert_eq!(settling.is_as_noted(reader(b"abcdef")), Err(()));
    }
}
