//! A connection to the daemon, of which every call ends by a deadline.

use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use tetris_wire::daemon::{Message, PROTOCOL};
use tetris_wire::{ConnectError, Connection, ProtocolError, WireError, connect, no_descriptors};

/// The reason there is no answer.
pub(super) enum Failure {
    /// No one listens.
    NoDaemon,
    /// A daemon of another version of the protocol listens, which counts as none.
    Version { found: u32, expected: u32 },
    /// The daemon does not listen or answer in time. The action is a verb phrase.
    TimedOut(&'static str),
    /// The action failed.
    Io(&'static str, io::Error),
    /// The daemon violates the protocol.
    Protocol(ProtocolError),
}

impl From<ProtocolError> for Failure {
    fn from(error: ProtocolError) -> Self {
        match error {
            ProtocolError::Version { found, expected } => Self::Version { found, expected },
            error => Self::Protocol(error),
        }
    }
}

impl Failure {
    fn of(action: &'static str) -> impl FnOnce(WireError) -> Self {
        move |error| match error {
            WireError::Closed => Self::Io(action, io::ErrorKind::UnexpectedEof.into()),
            WireError::TimedOut => Self::TimedOut(action),
            WireError::Protocol(error) => error.into(),
            WireError::Io(error) => Self::Io(action, error),
        }
    }

    /// The failure in words; `None` if there is no daemon. `timeout` is the time that there was.
    pub(super) fn text(self, socket: &Path, timeout: Duration) -> Option<String> {
        let socket = socket.display();
        match self {
            Self::NoDaemon | Self::Version { .. } => None,
            Self::TimedOut(action) => Some(format!(
                "cannot {action} `{socket}` within {timeout:?}; is the daemon stuck?"
            )),
            Self::Io(action, error) => Some(format!("cannot {action} `{socket}`: {error}")),
            Self::Protocol(error) => Some(format!("`{socket}`: {error}")),
        }
    }
}

/// A connection to the daemon.
pub(super) struct DaemonConnection {
    connection: Connection,
    deadline: Instant,
}

impl DaemonConnection {
    /// Connects to the daemon that listens at `path`.
    pub(super) fn open(path: &Path, deadline: Instant) -> Result<Self, Failure> {
        let action = "connect to";
        let stream = connect(path, deadline).map_err(|error| match error {
            ConnectError::NoListener => Failure::NoDaemon,
            ConnectError::TimedOut => Failure::TimedOut(action),
            ConnectError::Io(error) => Failure::Io(action, error),
        })?;
        let connection = Connection::trusted(stream, no_descriptors);
        let connection = connection.map_err(|error| Failure::Io(action, error))?;
        Ok(Self {
            connection,
            deadline,
        })
    }

    /// Puts the deadline off.
    pub(super) fn extend(&mut self, deadline: Instant) {
        self.deadline = deadline;
    }

    /// Sends a request, the first one, and returns the answer.
    pub(super) fn ask(&self, request: &Message) -> Result<Message, Failure> {
        if let Err(other) = self.greet()? {
            return Ok(other);
        }
        self.send(request)?;
        self.message()
    }

    /// Presents this process. Returns the daemon's version, or its message if that is not `HelloAck`.
    pub(super) fn greet(&self) -> Result<Result<String, Message>, Failure> {
        let pid = std::process::id();
        let hello = Message::Hello { pid }.encode();
        self.send_bytes(&[PROTOCOL.preamble().as_slice(), &hello].concat())?;
        let theirs = self.connection.preamble(self.deadline);
        PROTOCOL.check_preamble(&theirs.map_err(Failure::of("read from"))?)?;
        match self.message()? {
            Message::HelloAck { daemon } => Ok(Ok(daemon)),
            other => Ok(Err(other)),
        }
    }

    /// Sends a message that carries a descriptor.
    pub(super) fn pass(&self, message: &Message, file: BorrowedFd<'_>) -> Result<(), Failure> {
        let frame = message.encode();
        let sent = self.connection.send_with(&frame, &[file], self.deadline);
        sent.map_err(Failure::of("pass a file to"))
    }

    /// Receives the next message.
    pub(super) fn message(&self) -> Result<Message, Failure> {
        let received = self.connection.receive(self.deadline);
        let (frame, _) = received.map_err(Failure::of("read from"))?;
        Ok(Message::decode(frame.kind, &frame.payload)?)
    }

    /// Receives messages until one says how a passed file or memory ended, by `last` at the latest.
    /// `timeout` is the longest wait for each; `progress` is told of bytes read and of all bytes.
    pub(super) fn outcome(
        &mut self,
        last: Instant,
        timeout: Duration,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<Message, Failure> {
        loop {
            self.extend(last.min(Instant::now() + timeout));
            match self.message()? {
                Message::IngestWaiting { .. } => {}
                Message::IngestProgress { done, total } => progress(done, total),
                other => return Ok(other),
            }
        }
    }

    /// Sends a message.
    pub(super) fn send(&self, message: &Message) -> Result<(), Failure> {
        self.send_bytes(&message.encode())
    }

    fn send_bytes(&self, bytes: &[u8]) -> Result<(), Failure> {
        let sent = self.connection.send(bytes, self.deadline);
        sent.map_err(Failure::of("write to"))
    }
}
