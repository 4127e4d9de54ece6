//! Why a client has no model.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use tetris_store_layout::ObjectId;
use thiserror::Error;

use crate::memory::MemoryError;
use crate::protocol::{ErrorCode, ProtocolError, Reason, Refused};
use crate::wire::WireError;

/// Why a client has no model. In every case the weights can still be loaded into host memory.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ClientError {
    /// Nobody listens there.
    #[error(
        "expected a mirror at `{path}`, found none; is the daemon running with a table `gpu_mirror`?"
    )]
    NoServer {
        /// The socket.
        path: PathBuf,
    },
    /// The socket cannot be reached.
    #[error("cannot connect to `{path}`: {source}")]
    Connect {
        /// The socket.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The server hung up: it ended, or has too many connections.
    #[error("the mirror hung up; has it stopped, or too many connections of this user?")]
    Closed,
    /// Nothing came in time.
    #[error("expected {expected} within {limit:?}, found nothing; is the mirror stuck?")]
    TimedOut {
        /// What was waited for.
        expected: &'static str,
        /// How long.
        limit: Duration,
    },
    /// The connection failed.
    #[error("the connection to the mirror failed: {0}")]
    Io(#[source] io::Error),
    /// The server speaks another language.
    #[error("the mirror sent what it should not: {0}")]
    Protocol(#[from] ProtocolError),
    /// A message that makes no sense at this point.
    #[error("the mirror sent what it should not: expected {expected}")]
    Unexpected {
        /// What would have made sense.
        expected: &'static str,
    },
    /// The server understood nothing.
    #[error("the mirror refuses this client: {code}: {text}")]
    Server {
        /// Why, for programs.
        code: ErrorCode,
        /// Why, for people.
        text: String,
    },
    /// The model does not get onto a device.
    #[error("the mirror does not take the model ({}): {}", .0.reason, .0.text)]
    Refused(Refused),
    /// The model was admitted, and could not be copied.
    #[error("the mirror could not copy the model ({reason}): {text}")]
    Failed {
        /// Why, for programs.
        reason: Reason,
        /// Why, for people.
        text: String,
    },
    /// What the server handed out cannot be mapped.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The model has no such object.
    #[error("expected an object of the model, found {0}; look at its manifest")]
    NoObject(ObjectId),
}

impl ClientError {
    /// What became of waiting for `expected`.
    pub(super) fn of(error: WireError, expected: &'static str, limit: Duration) -> Self {
        match error {
            WireError::Closed => Self::Closed,
            WireError::TimedOut => Self::TimedOut { expected, limit },
            WireError::Protocol(error) => Self::Protocol(error),
            WireError::Io(error) => Self::Io(error),
        }
    }
}
