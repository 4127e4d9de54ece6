//! Reasons that a request to the node daemon has no result.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use tetris_store_layout::TrustDomain;
use tetris_wire::ProtocolError;
use tetris_wire::daemon::{ErrorCode, IngestRefusal, RoomRefusal};

/// The reason that a request to the node daemon has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DaemonError {
    /// No daemon looks after this store.
    #[error("no daemon listens at `{}`", socket.display())]
    Absent {
        /// Path of its socket.
        socket: PathBuf,
    },
    /// A daemon of another version of the protocol listens, which counts as none.
    #[error(
        "the daemon at `{}` has version {found} of the protocol, expected {expected}; use tetris and tetris-node of one release",
        socket.display()
    )]
    Version {
        /// Path of its socket.
        socket: PathBuf,
        /// Version of its protocol.
        found: u32,
        /// Version of this build's protocol.
        expected: u32,
    },
    /// The daemon is older than the request.
    #[error(
        "tetris-node {version} does not know this request; use one of version {} or later",
        env!("CARGO_PKG_VERSION")
    )]
    TooOld {
        /// Version of the daemon.
        version: String,
    },
    /// The daemon does not listen or answer in time.
    #[error("cannot {action} `{}` within {timeout:?}; is the daemon stuck?", socket.display())]
    TimedOut {
        /// The step, as a verb phrase.
        action: &'static str,
        /// Path of its socket.
        socket: PathBuf,
        /// Time that there was.
        timeout: Duration,
    },
    /// A failed system call.
    #[error("cannot {action} `{}`: {source}", socket.display())]
    Io {
        /// The step, as a verb phrase.
        action: &'static str,
        /// Path of its socket.
        socket: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// The daemon violates the protocol.
    #[error("`{}`: {source}", socket.display())]
    Protocol {
        /// Path of its socket.
        socket: PathBuf,
        /// The violation.
        source: ProtocolError,
    },
    /// The daemon makes no room, or not enough.
    #[error("{}", .0.text)]
    RoomRefused(RoomRefusal),
    /// The daemon does not publish or record it.
    #[error("{}", .0.text)]
    Refused(IngestRefusal),
    /// The daemon answered with an error.
    #[error("the daemon answered error {}: {text}", code.0)]
    Answered {
        /// The reason, for programs.
        code: ErrorCode,
        /// The reason, for people.
        text: String,
    },
    /// The daemon answered with a message of another kind than an answer to the request.
    #[error("expected an answer about {expected}, found message kind {kind}")]
    Unexpected {
        /// Subject of the request.
        expected: &'static str,
        /// Kind of the message.
        kind: u8,
    },
    /// This process is in another trust domain than the request is for.
    #[error("expected domain {expected}, found {}", found.map_or("none".to_owned(), |found| found.to_string()))]
    Domain {
        /// Domain of the request.
        expected: TrustDomain,
        /// Domain of this process.
        found: Option<TrustDomain>,
    },
}

impl DaemonError {
    /// Returns true if no daemon looks after the store, or none that understands this agent.
    pub const fn is_absent(&self) -> bool {
        matches!(self, Self::Absent { .. } | Self::Version { .. })
    }
}
