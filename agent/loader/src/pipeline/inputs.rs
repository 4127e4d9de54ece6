//! The inputs of a pipeline.

use tetris_store_layout::{Access, Store};

use crate::error::LoadError;
use crate::job::Job;
use crate::private::PrivateBytes;
use crate::progress::ProgressFn;
use crate::source::Source;

/// Objects to make of a file, and the means to make them.
pub struct Pipeline<'a> {
    /// The file.
    pub source: &'a Source,
    /// The objects.
    pub jobs: &'a [Job],
    /// The store to find them in or publish them to; `None` to hash only.
    pub store: Option<&'a Store>,
    /// True if the objects are known not to be in the store.
    pub known_missing: bool,
    /// Access of the mappings.
    pub access: Access,
    /// Number of threads.
    pub threads: usize,
    /// Receives the progress.
    pub progress: Option<&'a ProgressFn>,
    /// Called when the store is full, with the number of bytes needed; true when some were freed.
    pub make_room: &'a (dyn Fn(u64) -> bool + Sync),
}

impl Pipeline<'_> {
    /// `bytes` zero bytes of private memory.
    pub(crate) fn buffer(&self, bytes: u64) -> Result<PrivateBytes, LoadError> {
        PrivateBytes::zeroed(bytes).ok_or_else(|| LoadError::OutOfMemory {
            path: self.source.path().to_owned(),
            bytes,
        })
    }
}
