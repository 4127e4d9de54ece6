//! The report of a load.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tetris_loader::{PrivateCause, Recognized, Words};

use crate::private_reason::PrivateReason;
use crate::store_location::SHM_DIR;

/// The report of a load.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoadReport {
    /// The way that each file was recognized, in the order of the files.
    pub recognized: Vec<Recognized>,
    /// Tensors of the model.
    pub tensors: u64,
    /// Objects that the model is mapped from, or private buffers.
    pub objects: u64,
    /// Bytes of objects that were in the store already.
    pub bytes_shared: u64,
    /// Bytes of objects that this load published.
    pub bytes_new: u64,
    /// Bytes of `bytes_shared` that came into the store from other files than this one: mappings of the
    /// files through the page cache would not share them. 0 for a file known by `stat` or that
    /// the daemon published, since it may have been there itself.
    pub bytes_of_other_files: u64,
    /// Bytes in private memory, because the store could not take them.
    pub bytes_private: u64,
    /// Bytes in private memory by choice: of files that are not worth sharing
    /// ([`LoadOptions::min_shared_bytes`](crate::LoadOptions)).
    pub bytes_unshared: u64,
    /// Bytes of tensor data read from the model file to hash or to keep them; a byte read twice counts twice.
    pub bytes_read: u64,
    /// The reason that some bytes are private or unshared, if any are; with the answer of the node
    /// daemon, if it made no room.
    pub private_reason: Option<String>,
    /// The cause of that reason; [`LoadReport::remedy`] gives the command that removes it.
    pub private_cause: Option<PrivateCause>,
    /// The directory of the store: the one used, or the configured one that cannot be used.
    pub store: Option<PathBuf>,
    /// Time that the load took.
    pub duration: Duration,
}

impl LoadReport {
    /// Bytes of the model: shared, new, private and unshared.
    pub fn bytes_total(&self) -> u64 {
        self.bytes_shared + self.bytes_new + self.bytes_private + self.bytes_unshared
    }

    /// The next step that makes the private bytes shared, with a command to run; `None` if all are.
    pub fn remedy(&self, words: Words) -> Option<String> {
        let dir = self.store.as_deref().unwrap_or(Path::new(SHM_DIR));
        Some(self.private_cause?.remedy(words, dir))
    }

    pub(crate) fn set_private(&mut self, reason: PrivateReason) {
        self.private_reason = Some(reason.text);
        self.private_cause = Some(reason.cause);
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.recognized.extend(other.recognized);
        self.tensors += other.tensors;
        self.objects += other.objects;
        self.bytes_shared += other.bytes_shared;
        self.bytes_new += other.bytes_new;
        self.bytes_of_other_files += other.bytes_of_other_files;
        // The reason of a failure is more specific than the reason not to ask the store.
        let first_failure = self.bytes_private == 0 && other.bytes_private > 0;
        if self.private_reason.is_none() || first_failure {
            self.private_reason = other.private_reason;
            self.private_cause = other.private_cause;
        }
        self.store = self.store.take().or(other.store);
        self.bytes_private += other.bytes_private;
        self.bytes_unshared += other.bytes_unshared;
        self.bytes_read += other.bytes_read;
        self.duration += other.duration;
    }
}
