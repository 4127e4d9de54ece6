//! Ways in which instances of a node share weights.

use serde::Serialize;
use tetris_scaler_core::ModelTensors;

use crate::catalog::Function;

/// A way in which instances of a node share weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sharing {
    /// Each instance has its own file and its own copy in private memory. Each start reads the file
    /// from the disk.
    Private,
    /// Instances read one file through the page cache, and copy it into private memory.
    CopiedFile,
    /// Instances map one file, and use the pages of the page cache in place. Some engines copy a
    /// part of it.
    MappedFile,
    /// Instances map the tensors of the node's store, whatever file they came from.
    Store,
}

impl Sharing {
    /// True if weights stay in the page cache after their last use, until memory is short.
    pub(super) const fn caches_files(self) -> bool {
        matches!(self, Self::CopiedFile | Self::MappedFile)
    }

    /// Returns the function's weights in the units in which they are shared.
    pub(super) fn units(self, function: &Function) -> &ModelTensors {
        match self {
            Self::Store => &function.tensors,
            Self::Private | Self::CopiedFile | Self::MappedFile => &function.file,
        }
    }
}

/// Memory and loads of an instance under a way of sharing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts {
    /// Share of the weights that each instance has in private memory, in thousandths.
    pub(super) copied_permille: u64,
}

impl Parts {
    pub(super) const fn of(sharing: Sharing, copied_permille: u64) -> Self {
        let copied_permille = match sharing {
            Sharing::Private | Sharing::CopiedFile => 1_000,
            Sharing::MappedFile => copied_permille,
            Sharing::Store => 0,
        };
        Self { copied_permille }
    }

    /// Part of `bytes` that each instance copies, in bytes.
    pub(super) const fn copied(self, bytes: u64) -> u64 {
        bytes.saturating_mul(self.copied_permille) / 1_000
    }

    /// Part of `bytes` that a node has once, in bytes.
    pub(super) const fn shared(self, bytes: u64) -> u64 {
        bytes.saturating_sub(self.copied(bytes))
    }
}
