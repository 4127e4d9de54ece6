//! Errors of sockets and calls.

use std::error::Error;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use axum::http::StatusCode;
use thiserror::Error;

/// The reason that a socket cannot be listened on, or that a call failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum UnixHttpError {
    /// Another process listens there.
    #[error("another process listens on `{}`; stop that one first", path.display())]
    InUse {
        /// The socket.
        path: PathBuf,
    },
    /// A system call failed.
    #[error("cannot {action} `{}`: {source}", path.display())]
    Io {
        /// The failed action.
        action: &'static str,
        /// The socket.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The answer did not come in time.
    #[error("no answer from `{}` within {} ms; its process is stopped or overloaded", path.display(), limit.as_millis())]
    TooLate {
        /// The socket.
        path: PathBuf,
        /// The time limit.
        limit: Duration,
    },
    /// The exchange broke off, or is no HTTP.
    #[error("the exchange with `{}` failed: {source}", path.display())]
    Exchange {
        /// The socket.
        path: PathBuf,
        /// The cause.
        source: Box<dyn Error + Send + Sync>,
    },
    /// The answer has another status than success.
    #[error("`{}` answered {status}: {reason}", path.display())]
    Refused {
        /// The socket.
        path: PathBuf,
        /// The status.
        status: StatusCode,
        /// First line of the answer, in at most 200 bytes.
        reason: String,
    },
    /// The message is not the expected JSON.
    #[error("JSON in the exchange with `{}`: {source}", path.display())]
    Json {
        /// The socket.
        path: PathBuf,
        /// The cause.
        source: serde_json::Error,
    },
}
