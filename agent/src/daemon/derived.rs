//! Requests for this process's trust domain, and to record a derived tensor in it.

use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use tetris_store_layout::{DerivedKey, ObjectRef, TrustDomain};
use tetris_wire::daemon::{DerivedClaim, ErrorCode, Message};

use super::connection::{DaemonConnection, Failure};
use super::ingest::LONGEST;

/// Asks the daemon that listens at `socket` for the domain of this process. `header` is the store's
/// header, through the mount that this process has. `None` if it has no domain, or the daemon keeps no
/// records for clients.
///
/// # Errors
/// A sentence, when a daemon is there and gives no answer within `timeout`.
pub fn ask_domain(
    socket: &Path,
    header: impl AsFd,
    timeout: Duration,
) -> Result<Option<TrustDomain>, String> {
    let deadline = Instant::now() + timeout;
    let asked = DaemonConnection::open(socket, deadline).and_then(|connection| {
        Ok(match connection.greet()? {
            Ok(_) => domain(&connection, header)?,
            Err(other) => Err(unexpected(&other)),
        })
    });
    asked.unwrap_or_else(|failure| failure.text(socket, timeout).map_or(Ok(None), Err))
}

/// Has the daemon that listens at `socket` record that `key` derives to `object`, by the word of this
/// process. The key's domain must be this process's.
///
/// # Errors
/// A sentence that says why there is no record.
pub fn record_derived(
    socket: &Path,
    header: impl AsFd,
    key: &DerivedKey,
    object: ObjectRef,
    timeout: Duration,
) -> Result<(), String> {
    let begun = Instant::now();
    let asked = DaemonConnection::open(socket, begun + timeout).and_then(|mut connection| {
        if let Err(other) = connection.greet()? {
            return Ok(Err(unexpected(&other)));
        }
        match domain(&connection, header)? {
            Ok(Some(found)) if found == key.domain() => {}
            Ok(found) => {
                let found = found.map_or("none".to_owned(), |found| found.to_string());
                return Ok(Err(format!(
                    "expected domain {}, found {found}",
                    key.domain()
                )));
            }
            Err(why) => return Ok(Err(why)),
        }
        let claim = DerivedClaim {
            object,
            source: key.source(),
            version: key.version(),
            transform: key.transform().to_owned(),
        };
        connection.send(&Message::RecordDerived(claim))?;
        Ok(
            match connection.outcome(begun + LONGEST, timeout, |_, _| {})? {
                Message::Recorded => Ok(()),
                other => Err(unexpected(&other)),
            },
        )
    });
    asked.unwrap_or_else(|failure| {
        let why = failure.text(socket, timeout);
        Err(why.unwrap_or_else(|| "no daemon listens in the store".to_owned()))
    })
}

pub(super) fn domain(
    connection: &DaemonConnection,
    header: impl AsFd,
) -> Result<Result<Option<TrustDomain>, String>, Failure> {
    connection.pass(&Message::AskDomain, header.as_fd())?;
    Ok(match connection.message()? {
        Message::Domain(domain) => Ok(domain),
        // A daemon of before there were domains.
        Message::Error { code, .. } if code == ErrorCode::UNKNOWN_KIND => Ok(None),
        other => Err(unexpected(&other)),
    })
}

pub(super) fn unexpected(message: &Message) -> String {
    match message {
        Message::IngestRefused(refusal) => refusal.text.clone(),
        Message::Error { code, text } => format!("the daemon answered error {}: {text}", code.0),
        other => format!("the daemon answered message kind {}", other.kind()),
    }
}
