//! The ways to recognize a file, and the end of a wrong recognition.

use tetris_store_layout::{ManifestKind, Store};

use crate::source::Source;

/// The way a model file was recognized.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Recognized {
    /// This very file was loaded on this node before: its header and 32 blocks were compared with
    /// the store.
    ByStat,
    /// By its name in a Hugging Face cache, the SHA-256 of its content: nothing of it was read.
    ByBlobName,
    /// By the sidecar beside it: its header and 64 blocks were read, and 32 compared with the store.
    BySidecar,
    /// By the node daemon, which published it for this process: its header and 32 blocks were
    /// compared here.
    Brokered,
    /// Not at all: every byte was read and hashed.
    ByHashing,
    /// Not at all, and there is no store: every byte was read into private memory.
    NotAtAll,
    /// Not looked up, since sharing it is not worth its cost (`min_shared_bytes` of the agent's
    /// options): every byte was read into private memory.
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

    /// Returns true if a file recognized this way is compared with the objects before they stand
    /// for it (INV-11). A blob's name is trusted without that (LAYOUT.md 8).
    pub const fn is_compared(self) -> bool {
        matches!(self, Self::ByStat | Self::BySidecar | Self::Brokered)
    }
}

/// Removes the identity by which `source` was recognized wrongly, lest it mislead the next load.
pub fn disown(store: &Store, source: &Source, kind: ManifestKind, recognized: Recognized) {
    tracing::warn!(
        path = %source.path().display(),
        how = recognized.name(),
        "the file was recognized wrongly and is hashed"
    );
    if recognized == Recognized::ByStat
        && store.is_writable()
        && let Some(key) = source.stat_key(kind)
        && let Err(error) = store.unbind(&key)
    {
        tracing::warn!(%error, "a wrong identity stays in the store");
    }
}
