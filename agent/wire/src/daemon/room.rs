//! Refusals of room.

use crate::{MAX_TEXT_BYTES, ProtocolError, Reader, Writer};

/// The reason there is no room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoomRefusal {
    /// Number of bytes that are missing; 0 if bytes are not the reason.
    pub missing_bytes: u64,
    /// The reason, for programs.
    pub reason: RoomReason,
    /// The reason, for people; at most [`MAX_TEXT_BYTES`].
    pub text: String,
}

/// Reason there is no room. Later daemons may know more reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RoomReason(pub u16);

impl RoomReason {
    /// The objects in the store are mapped.
    pub const IN_USE: Self = Self(1);
    /// A policy keeps the unmapped objects: declared warm, guaranteed, too young.
    pub const POLICY: Self = Self(2);
    /// The store could not hold the model if it were empty.
    pub const TOO_LARGE: Self = Self(3);
    /// The user of the request may not reclaim.
    pub const NOT_ALLOWED: Self = Self(4);
    /// Too many requests wait already.
    pub const BUSY: Self = Self(5);
    /// The daemon cannot use the store, or only plans.
    pub const UNAVAILABLE: Self = Self(6);
    /// The store is at its limit.
    pub const LIMIT: Self = Self(7);
}

impl RoomRefusal {
    pub(super) fn encode(&self, to: Writer) -> Writer {
        let to = to.u64(self.missing_bytes).u16(self.reason.0);
        to.text(&self.text, MAX_TEXT_BYTES)
    }

    pub(super) fn decode(mut from: Reader<'_>) -> Result<Self, ProtocolError> {
        Ok(Self {
            missing_bytes: from.u64()?,
            reason: RoomReason(from.u16()?),
            text: from.last_text()?,
        })
    }
}
