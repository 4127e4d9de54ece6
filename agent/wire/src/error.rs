//! Errors of protocols and connections.

use std::io;

use rustix::io::Errno;
use thiserror::Error;

use crate::limits::MAX_FRAME_BYTES;

/// The reason bytes of the other side violate the protocol.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ProtocolError {
    /// The other side speaks another protocol.
    #[error("preamble begins with `{found}`, expected `{expected}`; is this the right socket?")]
    Magic {
        /// The bytes found, printable ones as characters.
        found: String,
        /// The magic of the protocol, printable bytes as characters.
        expected: String,
    },
    /// The other side has another version.
    #[error(
        "protocol version is {found}, expected {expected}; use a client and a daemon of one release"
    )]
    Version {
        /// The version found.
        found: u32,
        /// The version of this side.
        expected: u32,
    },
    /// A frame announces a length above the maximum.
    #[error("frame has {found} bytes, at most {MAX_FRAME_BYTES} are allowed")]
    TooLong {
        /// Its length with its header, in bytes.
        found: u64,
    },
    /// The kind of message is unknown, or only the other side sends it.
    #[error("message kind {0} is not expected here in this version of the protocol")]
    UnknownKind(u8),
    /// A payload is longer or shorter than its message.
    #[error("payload of message kind {kind} has {found} bytes, expected {expected}")]
    Length {
        /// The message's kind.
        kind: u8,
        /// Length of the message's payload in bytes, as text.
        expected: &'static str,
        /// Length found, in bytes.
        found: usize,
    },
    /// A field has an invalid value.
    #[error("message kind {kind} has the number {found}, expected {expected}")]
    Value {
        /// The message's kind.
        kind: u8,
        /// The valid values.
        expected: &'static str,
        /// The value found.
        found: u64,
    },
    /// A text is not UTF-8.
    #[error("text of message kind {0} is not UTF-8")]
    Text(u8),
}

/// The reason a frame was not sent or received.
#[derive(Debug, Error)]
pub enum WireError {
    /// The peer hung up.
    #[error("the other side hung up")]
    Closed,
    /// The deadline passed.
    #[error("the other side did not answer in time")]
    TimedOut,
    /// The received bytes are not a valid frame or message.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    /// A system call failed.
    #[error("the connection failed: {0}")]
    Io(#[from] io::Error),
}

impl From<Errno> for WireError {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::PIPE | Errno::CONNRESET => Self::Closed,
            errno => Self::Io(errno.into()),
        }
    }
}
