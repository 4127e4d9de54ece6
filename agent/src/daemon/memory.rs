//! Request to publish sealed memory, which is passed to the daemon.

use std::os::fd::BorrowedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use tetris_store_layout::ObjectRef;
use tetris_wire::daemon::{ErrorCode, IngestRefusal, Message};

use super::connection::{DaemonConnection, Failure};
use super::ingest::LONGEST;

/// Result of a request to publish memory.
#[derive(Debug)]
pub enum MemoryOutcome {
    /// The object is in the store.
    Published(PublishedMemory),
    /// The daemon does not publish it.
    Refused(IngestRefusal),
    /// No daemon looks after this store.
    NoDaemon,
    /// The daemon is of a version that takes no memory.
    TooOld {
        /// Its version.
        version: String,
    },
    /// A daemon is there and gave no answer, for this reason.
    Failed(String),
}

/// An object that is in the store. The daemon keeps it there while this lives, for some seconds at
/// most: time to map it.
pub struct PublishedMemory {
    /// Number of bytes that the daemon read of the memory; 0 for an object that was there.
    pub bytes_read: u64,
    /// Closing it ends the daemon's hold.
    connection: DaemonConnection,
}

impl std::fmt::Debug for PublishedMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PublishedMemory")
            .field("bytes_read", &self.bytes_read)
            .finish_non_exhaustive()
    }
}

impl PublishedMemory {
    /// Tells the daemon that the object is mapped.
    pub fn done(self) {
        // Hanging up says the same.
        let _told = self.connection.send(&Message::IngestDone);
    }
}

/// Passes sealed `memory`, whose bytes make `object`, to the daemon that listens at `socket`, and
/// waits until it is in the store. `timeout` is the longest wait for each message.
pub fn publish_memory(
    socket: &Path,
    memory: BorrowedFd<'_>,
    object: ObjectRef,
    timeout: Duration,
) -> MemoryOutcome {
    let failed = |failure: Failure| match failure.text(socket, timeout) {
        Some(why) => MemoryOutcome::Failed(why),
        None => MemoryOutcome::NoDaemon,
    };
    match DaemonConnection::open(socket, Instant::now() + timeout) {
        Ok(connection) => talk(connection, memory, object, timeout).unwrap_or_else(failed),
        Err(failure) => failed(failure),
    }
}

fn talk(
    mut connection: DaemonConnection,
    memory: BorrowedFd<'_>,
    object: ObjectRef,
    timeout: Duration,
) -> Result<MemoryOutcome, Failure> {
    let last = Instant::now() + LONGEST;
    let version = match connection.greet()? {
        Ok(version) => version,
        Err(other) => return Ok(unexpected(&other)),
    };
    connection.pass(&Message::Publish { object }, memory)?;
    let answer = connection.outcome(last, timeout, |_, _| {})?;
    Ok(match answer {
        Message::Published {
            object: found,
            bytes_read,
        } if found == object => {
            connection.extend(Instant::now() + timeout);
            MemoryOutcome::Published(PublishedMemory {
                bytes_read,
                connection,
            })
        }
        Message::IngestRefused(refusal) => MemoryOutcome::Refused(refusal),
        Message::Error { code, .. } if code == ErrorCode::UNKNOWN_KIND => {
            MemoryOutcome::TooOld { version }
        }
        other => unexpected(&other),
    })
}

fn unexpected(message: &Message) -> MemoryOutcome {
    match message {
        Message::Error { code, text } => {
            MemoryOutcome::Failed(format!("the daemon answered error {}: {text}", code.0))
        }
        other => MemoryOutcome::Failed(format!(
            "expected an answer about memory, found message kind {}",
            other.kind()
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixListener;

    use tetris_wire::daemon::PROTOCOL;

    use super::*;

    #[test]
    fn a_daemon_that_takes_no_memory_is_named_with_its_version() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("daemon");
        let listener = UnixListener::bind(&socket).unwrap();
        let outcome = std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = listener.accept().unwrap();
                let daemon = "0.0.9".to_owned();
                let hello = Message::HelloAck { daemon }.encode();
                let error = Message::Error {
                    code: ErrorCode::UNKNOWN_KIND,
                    text: "unknown message kind 65".to_owned(),
                };
                stream.write_all(&PROTOCOL.preamble()).unwrap();
                stream.write_all(&hello).unwrap();
                // The greeting, and the request without its descriptor.
                stream.read_exact(&mut [0; 12 + 9 + 5 + 44]).unwrap();
                stream.write_all(&error.encode()).unwrap();
                let _closed = std::io::copy(&mut stream, &mut std::io::sink());
            });
            let memory = tempfile::tempfile().unwrap();
            let object = ObjectRef::of(b"abc");
            publish_memory(&socket, memory.as_fd(), object, Duration::from_secs(20))
        });
        let MemoryOutcome::TooOld { version } = outcome else {
            panic!("{outcome:?}");
        };
        assert_eq!(version, "0.0.9");
    }
}
