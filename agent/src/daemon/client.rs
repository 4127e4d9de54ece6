//! Request for room: one request, one answer, by a deadline.

use std::path::Path;
use std::time::{Duration, Instant};

use tetris_wire::daemon::{Message, RoomRefusal};

use super::connection::DaemonConnection;

/// Result of a request for room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RoomOutcome {
    /// There is room.
    Made {
        /// Number of bytes that were free when the daemon answered.
        free_bytes: u64,
        /// Number of bytes freed for this request.
        freed_bytes: u64,
    },
    /// The daemon does not make room.
    Refused(RoomRefusal),
    /// No daemon looks after this store, or one that does not understand this agent.
    NoDaemon,
    /// A daemon is there and gave no answer, for this reason.
    Failed(String),
}

/// Asks the daemon that listens at `socket` to make room for `bytes` and `inodes` files, and waits
/// for its answer for at most `timeout`.
pub fn make_room(socket: &Path, bytes: u64, inodes: u32, timeout: Duration) -> RoomOutcome {
    let deadline = Instant::now() + timeout;
    let asked = DaemonConnection::open(socket, deadline)
        .and_then(|connection| connection.ask(&Message::MakeRoom { bytes, inodes }));
    match asked {
        Ok(Message::RoomMade {
            free_bytes,
            freed_bytes,
        }) => RoomOutcome::Made {
            free_bytes,
            freed_bytes,
        },
        Ok(Message::RoomRefused(refusal)) => RoomOutcome::Refused(refusal),
        Ok(Message::Error { code, text }) => {
            RoomOutcome::Failed(format!("the daemon answered error {}: {text}", code.0))
        }
        Ok(other) => RoomOutcome::Failed(format!(
            "expected an answer about room, found message kind {}",
            other.kind()
        )),
        Err(failure) => failure
            .text(socket, timeout)
            .map_or(RoomOutcome::NoDaemon, RoomOutcome::Failed),
    }
}
