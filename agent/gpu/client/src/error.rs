//! Errors of the client.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tetris_store_layout::ObjectId;
use tetris_wire::{ProtocolError, WireError};
use thiserror::Error;

use tetris_gpu_device::MemoryError;
use tetris_gpu_protocol::{ErrorCode, Reason, Refused};

/// The reason a client has no model. In every case the weights can still be loaded into host
/// memory.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ClientError {
    /// No server listens at the path.
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
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The server closed the connection: it ended, or has too many connections.
    #[error("the mirror hung up; has it stopped, or too many connections of this user?")]
    Closed,
    /// No answer came in time.
    #[error("expected {expected} within {limit:?}, found no message; is the mirror stuck?")]
    TimedOut {
        /// The expected message or event.
        expected: &'static str,
        /// The timeout.
        limit: Duration,
    },
    /// The connection failed.
    #[error("the connection to the mirror failed: {0}")]
    Io(#[source] io::Error),
    /// The server violated the protocol's encoding.
    #[error("the mirror sent an invalid message: {0}")]
    Protocol(#[from] ProtocolError),
    /// A message that is invalid at this point.
    #[error("the mirror sent an unexpected message: expected {expected}")]
    Unexpected {
        /// The valid messages at this point.
        expected: &'static str,
    },
    /// The server rejected a message of this client.
    #[error("the mirror refuses this client: {code}: {text}")]
    Server {
        /// The reason, for programs.
        code: ErrorCode,
        /// The reason, for people.
        text: String,
    },
    /// The server is of an earlier version, which does not know a request.
    #[error(
        "the mirror does not know the request {request}: its version is earlier than this client's; update the node's daemon"
    )]
    TooOld {
        /// The request.
        request: &'static str,
    },
    /// The server refuses the model.
    #[error("the mirror does not take the model ({}): {}", .0.reason, .0.text)]
    Refused(Refused),
    /// The server admitted the model and could not copy it.
    #[error("the mirror could not copy the model ({reason}): {text}")]
    Failed {
        /// The reason, for programs.
        reason: Reason,
        /// The reason, for people.
        text: String,
    },
    /// The granted memory cannot be mapped.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// A chunk could not be mapped after the model was granted.
    #[error("{0}")]
    Mapping(#[source] Arc<MemoryError>),
    /// The model has no such object.
    #[error("expected an object of the model, found {0}; look at its manifest")]
    NoObject(ObjectId),
}

impl ClientError {
    /// Converts the first error after a `request` that earlier versions do not know.
    pub(super) fn of_new(self, request: &'static str) -> Self {
        match self {
            Self::Server {
                code: ErrorCode::UNKNOWN_KIND,
                ..
            } => Self::TooOld { request },
            other => other,
        }
    }

    /// Converts an error of the connection during the wait for `expected`.
    pub(super) fn of(error: WireError, expected: &'static str, limit: Duration) -> Self {
        match error {
            WireError::Closed => Self::Closed,
            WireError::TimedOut => Self::TimedOut { expected, limit },
            WireError::Protocol(error) => Self::Protocol(error),
            WireError::Io(error) => Self::Io(error),
        }
    }
}

pub(super) fn unexpected(expected: &'static str) -> ClientError {
    ClientError::Unexpected { expected }
}
