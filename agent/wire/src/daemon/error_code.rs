//! Codes of errors.

/// Reason a message got no answer. Later daemons may know more reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ErrorCode(pub u16);

impl ErrorCode {
    /// The kind of message is unknown, or only the other side sends it.
    pub const UNKNOWN_KIND: Self = Self(1);
    /// The bytes are not a message.
    pub const MALFORMED: Self = Self(2);
    /// The message is not allowed at this point. The connection ends.
    pub const OUT_OF_TURN: Self = Self(3);
    /// The daemon ends, or took too long. The connection ends.
    pub const UNAVAILABLE: Self = Self(4);
}
