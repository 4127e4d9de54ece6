//! What a load did.

use std::time::Duration;

/// How a model file was recognized.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Recognized {
    /// This very file was loaded on this node before: its header and 32 blocks were compared with the store.
    ByStat,
    /// By its name in a Hugging Face cache, the SHA-256 of its content: nothing of it was read.
    ByBlobName,
    /// By the sidecar beside it: its header and 64 blocks were read, and 32 compared with the store.
    BySidecar,
    /// By the node's daemon, which published it for this process: its header and 32 blocks were compared here.
    Brokered,
    /// Not at all: every byte was read and hashed.
    ByHashing,
    /// Not at all, and there is no store: every byte was read into private memory.
    NotAtAll,
    /// Not looked up, since sharing it is not worth its cost ([`LoadOptions::min_shared_bytes`](crate::LoadOptions)): every
    /// byte was read into private memory.
    Unshared,
}

impl Recognized {
    /// The way's name for people and for JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ByStat => "stat",
            Self::ByBlobName => "blob-name",
            Self::BySidecar => "sidecar",
            Self::Brokered => "brokered",
            Self::ByHashing => "hashing",
            Self::NotAtAll => "none",
            Self::Unshared => "unshared",
        }
    }

    /// Whether the file is compared with the objects before they stand for it (INV-11). A blob's name is taken at its word (LAYOUT.md 8).
    pub(crate) fn is_compared(self) -> bool {
        matches!(self, Self::ByStat | Self::BySidecar | Self::Brokered)
    }
}

/// What a load did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoadReport {
    /// How each file was recognized, in the order of the files.
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
    /// Why some bytes are private or unshared, if any are; with the answer of the node's daemon, if it made no room.
    pub private_reason: Option<String>,
    /// How long the load took.
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
        // Why the store failed says more than why it was not asked.
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
