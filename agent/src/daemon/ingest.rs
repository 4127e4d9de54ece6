//! Request to publish a model file, which is passed to the daemon.

use std::os::fd::BorrowedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use tetris_store_layout::{ManifestId, ManifestKind};
use tetris_wire::daemon::{ErrorCode, IngestRefusal, Message};

use super::connection::{DaemonConnection, Failure};

/// Longest wait for an ingest, regardless of its progress: a terabyte at 300 MB per second.
pub(super) const LONGEST: Duration = Duration::from_hours(1);

/// Result of a request to ingest a file.
#[derive(Debug)]
pub enum IngestOutcome {
    /// The file is in the store.
    Ingested(Ingested),
    /// The daemon does not ingest it.
    Refused(IngestRefusal),
    /// No daemon looks after this store, or one that takes no files.
    NoDaemon,
    /// A daemon is there and gave no answer, for this reason.
    Failed(String),
}

/// A file that is in the store. The daemon keeps it there while this lives, for some seconds at
/// most: time to attach it.
pub struct Ingested {
    /// Its manifest.
    pub manifest: ManifestId,
    /// Number of bytes that the daemon read of the file; 0 for a known file.
    pub bytes_read: u64,
    /// Closing it ends the daemon's hold.
    connection: DaemonConnection,
}

impl std::fmt::Debug for Ingested {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ingested")
            .field("manifest", &self.manifest)
            .field("bytes_read", &self.bytes_read)
            .finish_non_exhaustive()
    }
}

impl Ingested {
    /// Tells the daemon that the file is attached.
    pub fn done(self) {
        // Hanging up says the same.
        let _told = self.connection.send(&Message::IngestDone);
    }
}

/// Passes `file` to the daemon that listens at `socket`, and waits until it is in the store.
/// `timeout` is the longest wait for each message; `progress` is told of bytes read and bytes of
/// the file.
pub fn ingest(
    socket: &Path,
    file: BorrowedFd<'_>,
    kind: ManifestKind,
    timeout: Duration,
    progress: impl FnMut(u64, u64),
) -> IngestOutcome {
    let failed = |failure: Failure| match failure.text(socket, timeout) {
        Some(why) => IngestOutcome::Failed(why),
        None => IngestOutcome::NoDaemon,
    };
    let begun = Instant::now();
    match DaemonConnection::open(socket, begun + timeout) {
        Ok(connection) => talk(connection, file, kind, timeout, progress).unwrap_or_else(failed),
        Err(failure) => failed(failure),
    }
}

fn talk(
    mut connection: DaemonConnection,
    file: BorrowedFd<'_>,
    kind: ManifestKind,
    timeout: Duration,
    progress: impl FnMut(u64, u64),
) -> Result<IngestOutcome, Failure> {
    let last = Instant::now() + LONGEST;
    if let Err(other) = connection.greet()? {
        return Ok(unexpected(&other));
    }
    connection.pass(&Message::Ingest { kind }, file)?;
    let answer = connection.outcome(last, timeout, progress)?;
    Ok(match answer {
        Message::Ingested {
            manifest,
            bytes_read,
        } => {
            connection.extend(Instant::now() + timeout);
            IngestOutcome::Ingested(Ingested {
                manifest,
                bytes_read,
                connection,
            })
        }
        Message::IngestRefused(refusal) => IngestOutcome::Refused(refusal),
        other => unexpected(&other),
    })
}

fn unexpected(message: &Message) -> IngestOutcome {
    match message {
        // A daemon of before there were ingests.
        Message::Error { code, .. } if *code == ErrorCode::UNKNOWN_KIND => IngestOutcome::NoDaemon,
        Message::Error { code, text } => {
            IngestOutcome::Failed(format!("the daemon answered error {}: {text}", code.0))
        }
        other => IngestOutcome::Failed(format!(
            "expected an answer about an ingest, found message kind {}",
            other.kind()
        )),
    }
}
