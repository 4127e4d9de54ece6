//! The agent's side: one connection, one request, one answer, by a deadline.

use std::ffi::OsStr;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, connect, recv, send, socket};

use super::address::Address;
use super::frame::{
    FRAME_HEADER_BYTES, FrameHeader, PREAMBLE_BYTES, ProtocolError, check_preamble, preamble,
};
use super::message::{Message, Refusal};

/// How a request for room ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// There is room.
    Made {
        /// Bytes that were free when the daemon answered.
        free_bytes: u64,
        /// Bytes that were freed for this request.
        freed_bytes: u64,
    },
    /// The daemon does not make room.
    Refused(Refusal),
    /// No daemon looks after this store, or one that does not understand this agent.
    NoDaemon,
    /// A daemon is there and gave no answer, for this reason.
    Failed(String),
}

/// Asks the daemon that listens at `socket` to make room for `bytes` and `inodes` files, and waits for its answer
/// for at most `timeout`.
pub fn make_room(socket: &Path, bytes: u64, inodes: u32, timeout: Duration) -> Outcome {
    let deadline = Instant::now() + timeout;
    let asked = Connection::open(socket, deadline)
        .and_then(|connection| connection.ask(&Message::MakeRoom { bytes, inodes }));
    match asked {
        Ok(Message::RoomMade {
            free_bytes,
            freed_bytes,
        }) => Outcome::Made {
            free_bytes,
            freed_bytes,
        },
        Ok(Message::RoomRefused(refusal)) => Outcome::Refused(refusal),
        Ok(Message::Error { code, text }) => {
            Outcome::Failed(format!("the daemon answered error {}: {text}", code.0))
        }
        Ok(other) => Outcome::Failed(format!(
            "expected an answer about room, found message kind {}",
            other.kind()
        )),
        Err(Failure::NoDaemon) => Outcome::NoDaemon,
        Err(Failure::Io(action, error)) if is_timeout(&error) => Outcome::Failed(format!(
            "cannot {action} `{}` within {timeout:?}; is the daemon stuck?",
            socket.display()
        )),
        Err(Failure::Io(action, error)) => {
            Outcome::Failed(format!("cannot {action} `{}`: {error}", socket.display()))
        }
        Err(Failure::Protocol(error)) => {
            Outcome::Failed(format!("`{}`: {error}", socket.display()))
        }
    }
}

enum Failure {
    NoDaemon,
    Io(&'static str, io::Error),
    Protocol(ProtocolError),
}

impl From<ProtocolError> for Failure {
    fn from(error: ProtocolError) -> Self {
        match error {
            ProtocolError::Version { .. } => Self::NoDaemon,
            error => Self::Protocol(error),
        }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
    )
}

struct Connection {
    stream: UnixStream,
    deadline: Instant,
}

impl Connection {
    fn open(path: &Path, deadline: Instant) -> Result<Self, Failure> {
        let io = |error: io::Error| match Errno::from_raw(error.raw_os_error().unwrap_or(0)) {
            // A socket without a listener, or another kind of file.
            Errno::ENOENT | Errno::ENOTDIR | Errno::ECONNREFUSED => Failure::NoDaemon,
            _ => Failure::Io("connect to", error),
        };
        let folder = path.parent().unwrap_or(Path::new("/"));
        let name = path.file_name().unwrap_or(OsStr::new(""));
        let address = Address::new(folder, name).map_err(io)?;
        let stream = socket(
            AddressFamily::Unix,
            SockType::Stream,
            SockFlag::SOCK_CLOEXEC,
            None,
        )
        .map_err(|error| io(error.into()))?;
        let connection = Self {
            stream: UnixStream::from(stream),
            deadline,
        };
        // A connect waits only while the listener's queue is full, and for as long as a send may wait.
        let connect = || connect(connection.stream.as_raw_fd(), address.addr());
        connection
            .retried(UnixStream::set_write_timeout, connect)
            .map_err(io)?;
        Ok(connection)
    }

    fn ask(&self, request: &Message) -> Result<Message, Failure> {
        let pid = std::process::id();
        let hello = Message::Hello { pid }.encode();
        self.send(&[preamble().as_slice(), &hello].concat())?;
        let mut theirs = [0; PREAMBLE_BYTES];
        self.receive(&mut theirs)?;
        check_preamble(&theirs)?;
        match self.message()? {
            Message::HelloAck { .. } => {}
            other => return Ok(other),
        }
        self.send(&request.encode())?;
        self.message()
    }

    fn message(&self) -> Result<Message, Failure> {
        let mut header = [0; FRAME_HEADER_BYTES];
        self.receive(&mut header)?;
        let header = FrameHeader::decode(header)?;
        let mut payload = vec![0; header.len];
        self.receive(&mut payload)?;
        Ok(Message::decode(header.kind, &payload)?)
    }

    fn send(&self, mut bytes: &[u8]) -> Result<(), Failure> {
        let fd = self.stream.as_raw_fd();
        while !bytes.is_empty() {
            // A daemon that is gone must not kill the process that loads.
            let sent = || send(fd, bytes, MsgFlags::MSG_NOSIGNAL);
            let sent = self.retried(UnixStream::set_write_timeout, sent);
            let sent = sent.map_err(|error| Failure::Io("write to", error))?;
            bytes = bytes.get(sent..).unwrap_or_default();
        }
        Ok(())
    }

    /// Fills `bytes`. No buffer for descriptors is offered, so that the kernel drops any that come along.
    fn receive(&self, mut bytes: &mut [u8]) -> Result<(), Failure> {
        let fd = self.stream.as_raw_fd();
        while !bytes.is_empty() {
            let received = || recv(fd, bytes, MsgFlags::empty());
            let received = match self.retried(UnixStream::set_read_timeout, received) {
                Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
                received => received,
            };
            let received = received.map_err(|error| Failure::Io("read from", error))?;
            bytes = bytes.get_mut(received..).unwrap_or_default();
        }
        Ok(())
    }

    /// Calls `call` until it is not cut short by a signal, with what is left of the time as its limit.
    fn retried<T>(
        &self,
        limit: impl Fn(&UnixStream, Option<Duration>) -> io::Result<()>,
        mut call: impl FnMut() -> nix::Result<T>,
    ) -> io::Result<T> {
        loop {
            let left = self.deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            // The kernel counts in microseconds, and takes 0 for no limit.
            limit(&self.stream, Some(left.max(Duration::from_millis(1))))?;
            match call() {
                Err(Errno::EINTR) => {}
                result => return Ok(result?),
            }
        }
    }
}
