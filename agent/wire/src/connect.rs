//! Connecting by a deadline.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use thiserror::Error;

use crate::Address;

/// The reason there is no connection.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// No one listens there: no file, a socket without a listener, or no socket.
    #[error("nobody listens there")]
    NoListener,
    /// The listener's queue was full until the deadline.
    #[error("the listener's queue is full")]
    TimedOut,
    /// A system call failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Connects to the socket at `path`.
///
/// # Errors
///
/// [`ConnectError`] if no one listens, the deadline passes, or a system call fails.
pub fn connect(path: &Path, deadline: Instant) -> Result<UnixStream, ConnectError> {
    let address = Address::of(path).map_err(of)?;
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None);
    let stream = UnixStream::from(socket.map_err(io::Error::from)?);
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ConnectError::TimedOut);
        }
        // A connect waits only while the listener's queue is full, and as long as a send may wait.
        // The kernel counts in microseconds, and takes 0 for no limit.
        stream.set_write_timeout(Some(left.max(Duration::from_millis(1))))?;
        match rustix::net::connect(&stream, address.socket_address()) {
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Err(ConnectError::TimedOut),
            connected => return connected.map(|()| stream).map_err(|error| of(error.into())),
        }
    }
}

fn of(error: io::Error) -> ConnectError {
    match Errno::from_io_error(&error) {
        Some(Errno::NOENT | Errno::NOTDIR | Errno::CONNREFUSED) => ConnectError::NoListener,
        _ => ConnectError::Io(error),
    }
}
