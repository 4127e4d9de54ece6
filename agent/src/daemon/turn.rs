//! Turns to build: of several processes that need one derived object, one makes it.

use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use tetris_store_layout::DerivedKey;
use tetris_wire::daemon::{BuildRequest, IngestReason, Message};

use super::connection::DaemonConnection;
use super::derived::{domain, unexpected};

/// The right to build. It lasts until this is dropped, or the process ends.
pub struct BuildTurn {
    _connection: DaemonConnection,
}

/// Asks the daemon that listens at `socket` for the turn of this process to build what `key` derives to. `None` while another
/// process has it: no one waits on a connection, of which a user has few. `header` is the store's header, through the mount that this process has; the key's domain must be this process's.
///
/// # Errors
/// A sentence that says why there is no turn.
pub fn take_turn(
    socket: &Path,
    header: impl AsFd,
    key: &DerivedKey,
    timeout: Duration,
) -> Result<Option<BuildTurn>, String> {
    let asked = DaemonConnection::open(socket, Instant::now() + timeout).and_then(|connection| {
        if let Err(other) = connection.greet()? {
            return Ok(Err(unexpected(&other)));
        }
        if let Err(why) = domain(&connection, header)? {
            return Ok(Err(why));
        }
        connection.send(&Message::TakeTurn(BuildRequest::of(key)))?;
        Ok(match connection.message()? {
            Message::TurnTaken => Ok(Some(BuildTurn {
                _connection: connection,
            })),
            Message::IngestRefused(refusal) if refusal.reason == IngestReason::BUSY => Ok(None),
            other => Err(unexpected(&other)),
        })
    });
    asked.unwrap_or_else(|failure| {
        let why = failure.text(socket, timeout);
        Err(why.unwrap_or_else(|| "no daemon listens in the store".to_owned()))
    })
}
