//! A connection to the daemon, of which every call ends by a deadline.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tetris_wire::daemon::{ErrorCode, Message, PROTOCOL, carries_descriptor};
use tetris_wire::{ConnectError, Connection, ProtocolError, WireError, connect};

use super::error::DaemonError;
use crate::trace_parent;

/// Longest wait for the end of a request, regardless of its progress: a terabyte at 300 MB per second.
const LONGEST: Duration = Duration::from_hours(1);

/// A connection to the daemon, after the greetings.
pub(super) struct DaemonConnection {
    connection: Connection,
    socket: PathBuf,
    timeout: Duration,
    deadline: Instant,
    /// Version of the daemon.
    version: String,
}

impl DaemonConnection {
    /// Connects to the daemon that listens at `socket`, and presents this process. `timeout` is the longest wait until the
    /// first answer, and for each later one.
    pub(super) fn open(socket: &Path, timeout: Duration) -> Result<Self, DaemonError> {
        let deadline = Instant::now() + timeout;
        let action = "connect to";
        let io = |source| DaemonError::Io {
            action,
            socket: socket.to_owned(),
            source,
        };
        let stream = connect(socket, deadline).map_err(|error| match error {
            ConnectError::NoListener => DaemonError::Absent {
                socket: socket.to_owned(),
            },
            ConnectError::TimedOut => DaemonError::TimedOut {
                action,
                socket: socket.to_owned(),
                timeout,
            },
            ConnectError::Io(error) => io(error),
        })?;
        let mut opened = Self {
            connection: Connection::trusted(stream, carries_descriptor).map_err(io)?,
            socket: socket.to_owned(),
            timeout,
            deadline,
            version: String::new(),
        };
        opened.version = opened.greet()?;
        opened.send_trace()?;
        Ok(opened)
    }

    /// Version of the daemon.
    pub(super) fn version(&self) -> &str {
        &self.version
    }

    /// Sends a request and returns its answer.
    pub(super) fn ask(&self, request: &Message) -> Result<Message, DaemonError> {
        self.send(request)?;
        self.message()
    }

    /// Sends a message that carries a descriptor.
    pub(super) fn pass(&self, message: &Message, file: BorrowedFd<'_>) -> Result<(), DaemonError> {
        let frame = message.encode();
        let sent = self.connection.send_with(&frame, &[file], self.deadline);
        sent.map_err(|error| self.failed("pass a file to", error))
    }

    /// Sends a message.
    pub(super) fn send(&self, message: &Message) -> Result<(), DaemonError> {
        self.send_bytes(&message.encode())
    }

    /// Receives the next message. An error of the daemon is one.
    pub(super) fn message(&self) -> Result<Message, DaemonError> {
        Ok(self.message_with()?.0)
    }

    /// Receives the next message and its descriptors.
    pub(super) fn message_with(&self) -> Result<(Message, Vec<OwnedFd>), DaemonError> {
        let received = self.connection.receive(self.deadline);
        let (frame, descriptors) = received.map_err(|error| self.failed("read from", error))?;
        match Message::decode(frame.kind, &frame.payload).map_err(|error| self.violated(error))? {
            Message::Error { code, .. } if code == ErrorCode::UNKNOWN_KIND => {
                Err(DaemonError::TooOld {
                    version: self.version.clone(),
                })
            }
            Message::Error { code, text } => Err(DaemonError::Answered { code, text }),
            message => Ok((message, descriptors)),
        }
    }

    /// Receives messages until one reports the end of a request that has a turn. Each has the timeout; `progress` receives bytes
    /// read and of all bytes.
    pub(super) fn outcome(
        &mut self,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<Message, DaemonError> {
        let last = Instant::now() + LONGEST;
        loop {
            self.deadline = last.min(Instant::now() + self.timeout);
            match self.message()? {
                Message::IngestWaiting { .. } => {}
                Message::IngestProgress { done, total } => progress(done, total),
                Message::IngestRefused(refusal) => return Err(DaemonError::Refused(refusal)),
                other => return Ok(other),
            }
        }
    }

    /// Gives the next calls the whole timeout.
    pub(super) fn extend(&mut self) {
        self.deadline = Instant::now() + self.timeout;
    }

    /// Returns the daemon's version.
    fn greet(&self) -> Result<String, DaemonError> {
        let pid = std::process::id();
        let hello = Message::Hello { pid }.encode();
        self.send_bytes(&[PROTOCOL.preamble().as_slice(), &hello].concat())?;
        let theirs = self.connection.preamble(self.deadline);
        let theirs = theirs.map_err(|error| self.failed("read from", error))?;
        let checked = PROTOCOL.check_preamble(&theirs);
        checked.map_err(|error| self.violated(error))?;
        match self.message()? {
            Message::HelloAck { daemon } => Ok(daemon),
            other => Err(DaemonError::Unexpected {
                expected: "a greeting",
                kind: other.kind(),
            }),
        }
    }

    /// Informs the daemon which span its work is for, if there is one. An older daemon has no use for it.
    fn send_trace(&self) -> Result<(), DaemonError> {
        let Some(parent) = trace_parent() else {
            return Ok(());
        };
        match self.ask(&Message::Trace { parent }) {
            Ok(_) | Err(DaemonError::TooOld { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn send_bytes(&self, bytes: &[u8]) -> Result<(), DaemonError> {
        let sent = self.connection.send(bytes, self.deadline);
        sent.map_err(|error| self.failed("write to", error))
    }

    fn failed(&self, action: &'static str, error: WireError) -> DaemonError {
        let socket = self.socket.clone();
        let source = match error {
            WireError::Closed => std::io::ErrorKind::UnexpectedEof.into(),
            WireError::Io(error) => error,
            WireError::Protocol(error) => return self.violated(error),
            WireError::TimedOut => {
                return DaemonError::TimedOut {
                    action,
                    socket,
                    timeout: self.timeout,
                };
            }
        };
        DaemonError::Io {
            action,
            socket,
            source,
        }
    }

    fn violated(&self, source: ProtocolError) -> DaemonError {
        let socket = self.socket.clone();
        match source {
            ProtocolError::Version { found, expected } => DaemonError::Version {
                socket,
                found,
                expected,
            },
            source => DaemonError::Protocol { socket, source },
        }
    }
}
