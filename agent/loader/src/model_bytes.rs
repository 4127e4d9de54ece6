//! The bytes of a model file, wherever they lie.

use std::path::Path;

use crate::error::LoadFailure;
use crate::source::Source;

/// A model file, read by position: a local one, or one fetched over the network.
pub trait ModelBytes: Sync {
    /// Name of the file, for messages.
    fn path(&self) -> &Path;

    /// Fills `buffer` with the bytes at `offset`.
    ///
    /// # Errors
    /// [`LoadFailure::Changed`] when the file ends before, another when it cannot be read.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), LoadFailure>;
}

impl ModelBytes for Source {
    fn path(&self) -> &Path {
        Self::path(self)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), LoadFailure> {
        Self::read_at(self, buffer, offset)
    }
}
