//! A connection to the daemon, of which every call ends by a deadline.

use std::ffi::OsStr;
use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, connect, recv, send, sendmsg,
    socket,
};

use super::address::Address;
use super::frame::{
    FRAME_HEADER_BYTES, FrameHeader, PREAMBLE_BYTES, ProtocolError, check_preamble, preamble,
};
use super::message::Message;

/// Why there is no answer.
pub(super) enum Failure {
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

impl Failure {
    /// What to tell; `None` when there is no daemon. `timeout` is the time that there was.
    pub(super) fn text(self, socket: &Path, timeout: Duration) -> Option<String> {
        let socket = socket.display();
        match self {
            Self::NoDaemon => None,
            Self::Io(action, error) if is_timeout(&error) => Some(format!(
                "cannot {action} `{socket}` within {timeout:?}; is the daemon stuck?"
            )),
            Self::Io(action, error) => Some(format!("cannot {action} `{socket}`: {error}")),
            Self::Protocol(error) => Some(format!("`{socket}`: {error}")),
        }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
    )
}

/// A connection to the daemon.
pub(super) struct Connection {
    stream: UnixStream,
    deadline: Instant,
}

impl Connection {
    /// Connects to the daemon that listens at `path`.
    pub(super) fn open(path: &Path, deadline: Instant) -> Result<Self, Failure> {
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

    /// Puts the deadline off.
    pub(super) fn extend(&mut self, deadline: Instant) {
        self.deadline = deadline;
    }

    /// Sends a request, the first one, and returns the answer.
    pub(super) fn ask(&self, request: &Message) -> Result<Message, Failure> {
        if let Some(other) = self.greet()? {
            return Ok(other);
        }
        self.send(&request.encode())?;
        self.message()
    }

    /// Presents this process; a message when the daemon wants no more of it.
    pub(super) fn greet(&self) -> Result<Option<Message>, Failure> {
        let pid = std::process::id();
        let hello = Message::Hello { pid }.encode();
        self.send(&[preamble().as_slice(), &hello].concat())?;
        let mut theirs = [0; PREAMBLE_BYTES];
        self.receive(&mut theirs)?;
        check_preamble(&theirs)?;
        match self.message()? {
            Message::HelloAck { .. } => Ok(None),
            other => Ok(Some(other)),
        }
    }

    /// Sends a message that carries a descriptor; its payload is not empty. The header goes first, by itself.
    pub(super) fn pass(&self, message: &Message, file: BorrowedFd<'_>) -> Result<(), Failure> {
        let frame = message.encode();
        let (header, payload) = frame
            .split_at_checked(FRAME_HEADER_BYTES)
            .unwrap_or_default();
        self.send(header)?;
        let descriptors = [file.as_raw_fd()];
        let rights = [ControlMessage::ScmRights(&descriptors)];
        let (fd, bytes) = (self.stream.as_raw_fd(), [IoSlice::new(payload)]);
        let sent = || sendmsg::<()>(fd, &bytes, &rights, MsgFlags::MSG_NOSIGNAL, None);
        let sent = self.retried(UnixStream::set_write_timeout, sent);
        let sent = sent.map_err(|error| Failure::Io("pass a file to", error))?;
        self.send(payload.get(sent..).unwrap_or_default())
    }

    /// The next message.
    pub(super) fn message(&self) -> Result<Message, Failure> {
        let mut header = [0; FRAME_HEADER_BYTES];
        self.receive(&mut header)?;
        let header = FrameHeader::decode(header)?;
        let mut payload = vec![0; header.len];
        self.receive(&mut payload)?;
        Ok(Message::decode(header.kind, &payload)?)
    }

    /// Sends bytes.
    pub(super) fn send(&self, mut bytes: &[u8]) -> Result<(), Failure> {
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
