//! Parts of a file in memory, as the planner of its objects reads them.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use tetris_loader::{LoadError, LoadFailure, ModelBytes};

use crate::error::PullError;

/// Fetches a range from the source.
pub(crate) type FetchMore<'f> = &'f (dyn Fn(Range<u64>) -> Result<Vec<u8>, PullError> + Sync);

/// Parts of a file.
pub(crate) struct FetchedParts<'f> {
    path: PathBuf,
    /// By their offsets.
    parts: BTreeMap<u64, Vec<u8>>,
    more: FetchMore<'f>,
}

impl<'f> FetchedParts<'f> {
    /// Parts of the file at `address`, with their offsets.
    pub(crate) fn new(
        address: &str,
        parts: impl IntoIterator<Item = (u64, Vec<u8>)>,
        more: FetchMore<'f>,
    ) -> Self {
        Self {
            path: address.into(),
            parts: parts.into_iter().collect(),
            more,
        }
    }

    /// The part at the beginning of the file; empty where there is none.
    pub(crate) fn into_front(mut self) -> Vec<u8> {
        self.parts.remove(&0).unwrap_or_default()
    }

    fn part(&self, offset: u64, len: usize) -> Option<&[u8]> {
        let (begin, part) = self.parts.range(..=offset).next_back()?;
        let begin = usize::try_from(offset - begin).ok()?;
        part.get(begin..begin.checked_add(len)?)
    }
}

impl ModelBytes for FetchedParts<'_> {
    fn path(&self) -> &Path {
        &self.path
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), LoadFailure> {
        if let Some(part) = self.part(offset, buffer.len()) {
            buffer.copy_from_slice(part);
            return Ok(());
        }
        let fetched = (self.more)(offset..offset.saturating_add(buffer.len() as u64));
        let fetched =
            fetched.map_err(|error| LoadError::io("fetch", &self.path, io::Error::other(error)))?;
        buffer.copy_from_slice(&fetched);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_from_the_part_that_has_them_all_and_else_from_the_source() {
        let more = |range: Range<u64>| Ok(vec![9; (range.end - range.start) as usize]);
        let parts = [(10, vec![1, 2, 3, 4]), (20, vec![5])];
        let parts = FetchedParts::new("s3://b/x", parts, &more);
        let read = |offset, len| {
            let mut buffer = vec![0; len];
            parts.read_at(&mut buffer, offset).unwrap();
            buffer
        };
        assert_eq!(read(11, 2), [2, 3]);
        assert_eq!(read(20, 1), [5]);
        for (offset, len) in [(9, 1), (12, 3), (14, 1), (19, 2)] {
            assert_eq!(read(offset, len), vec![9; len], "{offset}");
        }
    }
}
