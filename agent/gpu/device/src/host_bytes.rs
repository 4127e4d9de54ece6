//! Host memory that stays in place while a device reads it.

use std::fmt;
use std::io;
use std::ops::{Deref, Range};
use std::sync::Arc;

use super::MemoryError;
use super::bounds::check_inside;

/// Owner of bytes in host memory: a mapping of the store, a vector, a pinned buffer.
pub trait HostBytes: Send + Sync {
    /// The bytes, valid while the owner lives.
    fn bytes(&self) -> &[u8];

    /// Returns true if the pages are mapped read-only for good: a driver without read-only
    /// registration refuses them.
    fn stays_read_only(&self) -> bool {
        false
    }

    /// Runs `run` once while the pages of `part` are in a state that a driver without read-only
    /// registration accepts, if the owner can provide that state. Restores the previous state before
    /// it returns. A part begins at a page, and ends at one or with the bytes.
    ///
    /// # Errors
    ///
    /// An I/O error if `run` was not run, or if the previous state was not restored.
    fn while_registrable(&self, _part: Range<usize>, run: &mut dyn FnMut()) -> io::Result<()> {
        run();
        Ok(())
    }
}

impl<T: Deref<Target = [u8]> + Send + Sync> HostBytes for T {
    fn bytes(&self) -> &[u8] {
        self
    }
}

/// A part of an owner's bytes. It keeps the owner alive, because a device reads the bytes after the
/// call that queued the copy has returned.
#[derive(Clone)]
pub struct HostSlice {
    owner: Arc<dyn HostBytes>,
    range: Range<usize>,
}

impl HostSlice {
    /// Creates a slice of all bytes of `owner`.
    pub fn whole(owner: Arc<dyn HostBytes>) -> Self {
        let range = 0..owner.bytes().len();
        Self { owner, range }
    }

    /// Returns `len` bytes from `offset` of this slice.
    ///
    /// # Errors
    ///
    /// [`MemoryError::Bounds`] if they do not lie inside the slice.
    pub fn part(&self, offset: u64, len: u64) -> Result<Self, MemoryError> {
        check_inside(offset, len, self.range.len() as u64)?;
        let start = self.range.start + offset as usize;
        Ok(Self {
            owner: Arc::clone(&self.owner),
            range: start..start + len as usize,
        })
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        self.owner
            .bytes()
            .get(self.range.clone())
            .unwrap_or_default()
    }

    /// All bytes of the slice's owner.
    pub fn owner_bytes(&self) -> &[u8] {
        self.owner.bytes()
    }

    /// Returns the result of [`HostBytes::stays_read_only`] of the owner.
    pub fn stays_read_only(&self) -> bool {
        self.owner.stays_read_only()
    }

    /// Calls [`HostBytes::while_registrable`] of the owner for the pages of this slice, and returns
    /// the result of `run`.
    pub fn while_registrable<R>(&self, run: impl FnOnce() -> R) -> io::Result<R> {
        let (mut run, mut result) = (Some(run), None);
        self.owner.while_registrable(self.range.clone(), &mut || {
            result = run.take().map(|run| run());
        })?;
        result.ok_or_else(|| io::ErrorKind::Unsupported.into())
    }

    /// Offset of the slice in its owner's bytes.
    pub fn offset(&self) -> u64 {
        self.range.start as u64
    }

    /// Returns a slice of all bytes of the owner.
    pub fn of_owner(&self) -> Self {
        Self::whole(Arc::clone(&self.owner))
    }
}

impl fmt::Debug for HostSlice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostSlice")
            .field("range", &self.range)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_stay_inside() {
        let slice = HostSlice::whole(Arc::new(vec![0, 1, 2, 3, 4, 5]));
        let part = slice.part(2, 3).unwrap();
        assert_eq!(part.bytes(), [2, 3, 4]);
        assert_eq!(part.part(1, 2).unwrap().bytes(), [3, 4]);
        assert!(part.part(1, 3).is_err());
        assert!(part.part(u64::MAX, 2).is_err());
        assert_eq!((part.of_owner().bytes().len(), part.offset()), (6, 2));
        assert_eq!(part.part(1, 2).unwrap().offset(), 3);
    }
}
