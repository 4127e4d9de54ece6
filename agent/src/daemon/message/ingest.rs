//! What an ingest is asked for, and why there is none.

use tetris_store_layout::ManifestKind;

/// Why a file was not ingested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IngestRefusal {
    /// Why, for programs.
    pub reason: IngestReason,
    /// Why, for people; at most [`MAX_TEXT_BYTES`](super::MAX_TEXT_BYTES).
    pub text: String,
}

/// Why a file was not ingested. Later daemons may know more reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IngestReason(pub u16);

impl IngestReason {
    /// The descriptor is not of a regular file of a file system that keeps models.
    pub const NOT_A_FILE: Self = Self(1);
    /// The descriptor cannot be read from.
    pub const NOT_READABLE: Self = Self(2);
    /// The file is larger than the store, its limit, or what one file may have.
    pub const TOO_LARGE: Self = Self(3);
    /// There is not enough room, now.
    pub const NO_ROOM: Self = Self(4);
    /// The file changed while it was read.
    pub const CHANGED: Self = Self(5);
    /// It is not a model of the kind that was asked for.
    pub const INVALID: Self = Self(6);
    /// Too many are served or wait already.
    pub const BUSY: Self = Self(7);
    /// Nothing of the file could be read for too long.
    pub const STALLED: Self = Self(8);
    /// The daemon cannot use the store, could not read the file, or takes no files.
    pub const UNAVAILABLE: Self = Self(9);
    /// The file has no tensor bytes, so there is nothing to share.
    pub const EMPTY: Self = Self(10);
}

/// As in a manifest (LAYOUT.md 3.2).
pub(super) fn kind_code(kind: ManifestKind) -> u8 {
    match kind {
        ManifestKind::Safetensors => 1,
        ManifestKind::File => 2,
    }
}

pub(super) fn kind_of([code]: [u8; 1]) -> Option<ManifestKind> {
    match code {
        1 => Some(ManifestKind::Safetensors),
        2 => Some(ManifestKind::File),
        _ => None,
    }
}
