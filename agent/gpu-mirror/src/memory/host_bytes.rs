//! Host memory that stays where it is while a device reads it.

use std::fmt;
use std::io;
use std::ops::{Deref, Range};
use std::sync::Arc;

use super::MemoryError;
use super::bounds::check_inside;

/// Owns bytes in host memory: a mapping of the store, a vector, a pinned buffer.
pub trait HostBytes: Send + Sync {
    /// The bytes, for as long as the owner lives.
    fn bytes(&self) -> &[u8];

    /// Runs `run` once, while a driver that does not take read-only pages can register these, as far as their owner can bring that
    /// about; what it did for that is undone when this returns. An error says that `run` did not run, or that it could not be undone.
    fn while_registrable(&self, run: &mut dyn FnMut()) -> io::Result<()> {
        run();
        Ok(())
    }
}

impl<T: Deref<Target = [u8]> + Send + Sync> HostBytes for T {
    fn bytes(&self) -> &[u8] {
        self
    }
}

/// A part of somebody's bytes, which keeps the owner alive. A device reads from it after the call that
/// asked for the copy has returned, so a borrow would not do.
#[derive(Clone)]
pub struct HostSlice {
    owner: Arc<dyn HostBytes>,
    range: Range<usize>,
}

impl HostSlice {
    /// All bytes of `owner`.
    pub fn whole(owner: Arc<dyn HostBytes>) -> Self {
        let range = 0..owner.bytes().len();
        Self { owner, range }
    }

    /// `len` bytes from `offset` of this slice.
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

    /// All bytes of the owner that this is a part of.
    pub fn owner_bytes(&self) -> &[u8] {
        self.owner.bytes()
    }

    /// [`HostBytes::while_registrable`] of the owner, with what `run` returns.
    pub fn while_registrable<R>(&self, run: impl FnOnce() -> R) -> io::Result<R> {
        let (mut run, mut result) = (Some(run), None);
        self.owner.while_registrable(&mut || {
            result = run.take().map(|run| run());
        })?;
        result.ok_or_else(|| io::ErrorKind::Unsupported.into())
    }

    /// The owner, as a slice of all its bytes.
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
        assert_eq!(part.of_owner().bytes().len(), 6);
    }
}
