//! The report of a load.

use std::time::Duration;

use tetris_loader::Recognized;

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
    /// Time that the load took.
    pub duration: Duration,
}

impl LoadReport {
    /// Bytes of the model: shared, new, private and unshared.
    pub fn bytes_total(&self) -> u64 {
        self.bytes_shared + self.bytes_new + self.bytes_private + self.bytes_unshared
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.recognized.extend(other.recognized);
        self.tensors += other.tensors;
        self.objects += other.objects;
        self.bytes_shared += other.bytes_shared;
        self.bytes_new += other.bytes_new;
        // The reason of a failure says more than the reason not to ask the store.
        let first_failure = self.bytes_private == 0 && other.bytes_private > 0;
        if self.private_reason.is_none() || first_failure {
            self.private_reason = other.private_reason;
        }
        self.bytes_private += other.bytes_private;
        self.bytes_unshared += other.bytes_unshared;
        self.bytes_read += other.bytes_read;
        self.duration += other.duration;
    }
}
