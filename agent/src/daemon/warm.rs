//! The models that the daemon keeps warm.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use tetris_store_layout::ManifestId;
use tetris_wire::daemon::{ErrorCode, Message};

use super::connection::{DaemonConnection, Failure};

/// The models among `ids` that pods of the node declare warm, as the daemon that listens at `socket`
/// knows them since its last pass. None where no daemon listens, or one that is not asked for that.
///
/// # Errors
/// A sentence, when a daemon is there and gives no answer within `timeout`.
pub fn declared_warm(
    socket: &Path,
    ids: &BTreeSet<ManifestId>,
    timeout: Duration,
) -> Result<BTreeSet<ManifestId>, String> {
    match ask(socket, ids, Instant::now() + timeout) {
        Ok(answer) => answer,
        Err(failure) => failure
            .text(socket, timeout)
            .map_or(Ok(BTreeSet::new()), Err),
    }
}

fn ask(
    socket: &Path,
    ids: &BTreeSet<ManifestId>,
    deadline: Instant,
) -> Result<Result<BTreeSet<ManifestId>, String>, Failure> {
    let mut warm = BTreeSet::new();
    let connection = DaemonConnection::open(socket, deadline)?;
    if let Err(other) = connection.greet()? {
        return Ok(Err(format!(
            "the daemon answered message kind {}",
            other.kind()
        )));
    }
    for id in ids {
        connection.send(&Message::AskWarm { manifest: *id })?;
        match connection.message()? {
            Message::Warm { warm: true } => _ = warm.insert(*id),
            Message::Warm { warm: false } => {}
            Message::Error { code, .. } if code == ErrorCode::UNKNOWN_KIND => break,
            Message::Error { code, text } => {
                return Ok(Err(format!("the daemon answered error {}: {text}", code.0)));
            }
            other => {
                return Ok(Err(format!(
                    "the daemon answered message kind {}",
                    other.kind()
                )));
            }
        }
    }
    Ok(Ok(warm))
}
