//! Errors of the connection.

use std::io;

use rustix::io::Errno;
use thiserror::Error;

use crate::protocol::ProtocolError;

/// The reason a frame was not sent or received.
#[derive(Debug, Error)]
pub(crate) enum WireError {
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
