//! Kinds and refusals of files and memory that clients pass.

use tetris_store_layout::ManifestKind;

use crate::{MAX_TEXT_BYTES, ProtocolError, Reader, Writer};

/// The reason a file or memory was not published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IngestRefusal {
    /// The reason, for programs.
    pub reason: IngestReason,
    /// The reason, for people; at most [`MAX_TEXT_BYTES`].
    pub text: String,
}

/// Reason a file or memory was not published. Later daemons may know more reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IngestReason(pub u16);

impl IngestReason {
    /// The descriptor is not of a regular file of a file system that keeps models.
    pub const NOT_A_FILE: Self = Self(1);
    /// The descriptor cannot be read from.
    pub const NOT_READABLE: Self = Self(2);
    /// The file exceeds the store, its limit, or the maximum for one file.
    pub const TOO_LARGE: Self = Self(3);
    /// There is not enough room at the moment.
    pub const NO_ROOM: Self = Self(4);
    /// The file changed while it was read.
    pub const CHANGED: Self = Self(5);
    /// The file is not a model of the requested kind.
    pub const INVALID: Self = Self(6);
    /// Too many files are served or wait already.
    pub const BUSY: Self = Self(7);
    /// Nothing of the file could be read for too long.
    pub const STALLED: Self = Self(8);
    /// The daemon cannot use the store, could not read the file, or takes no files.
    pub const UNAVAILABLE: Self = Self(9);
    /// The file has no tensor bytes, so there is nothing to share.
    pub const EMPTY: Self = Self(10);
    /// The store is at its limit, or the file exceeds that.
    pub const LIMIT: Self = Self(11);
    /// Policy keeps the unmapped objects, or keeps the free room for the guarantees of others.
    pub const POLICY: Self = Self(12);
    /// The memory is not sealed against changes of its bytes and its length.
    pub const NOT_SEALED: Self = Self(13);
    /// The descriptor is not of a memory file of plain pages.
    pub const NOT_MEMORY: Self = Self(14);
    /// Pages of the memory were never written.
    pub const SPARSE: Self = Self(15);
    /// The client has no trust domain, so its word counts for no one.
    pub const NO_DOMAIN: Self = Self(16);
    /// The object of a claim is not in the store.
    pub const NO_OBJECT: Self = Self(17);
}

impl IngestRefusal {
    pub(super) fn encode(&self, to: Writer) -> Writer {
        to.u16(self.reason.0).text(&self.text, MAX_TEXT_BYTES)
    }

    pub(super) fn decode(mut from: Reader<'_>) -> Result<Self, ProtocolError> {
        Ok(Self {
            reason: IngestReason(from.u16()?),
            text: from.last_text()?,
        })
    }
}

/// The code of a kind, as in a manifest (LAYOUT.md 3.2).
pub(super) fn kind_code(kind: ManifestKind) -> u8 {
    match kind {
        ManifestKind::Safetensors => 1,
        ManifestKind::File => 2,
    }
}

pub(super) fn kind_of(from: &mut Reader<'_>) -> Result<ManifestKind, ProtocolError> {
    match from.u8()? {
        1 => Ok(ManifestKind::Safetensors),
        2 => Ok(ManifestKind::File),
        other => Err(from.value("1 or 2", other.into())),
    }
}
