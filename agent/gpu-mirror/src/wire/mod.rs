//! Frames over a UNIX socket. Nothing here blocks beyond a deadline.
//!
//! Messages of kinds below [`DESCRIPTORS_FROM`] are read without a control buffer, so the kernel closes descriptors that come
//! with them in the thread that reads, and never installs them here. Closing may wait: a server reads each connection in a thread of its own, has
//! such waits ended, and closes streams aside, with what nobody read from them.

mod descriptors;
mod error;
mod poll;

#[cfg(test)]
mod tests;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use tetris_closer::{Aside, Closer};

use crate::protocol::{
    DESCRIPTORS_FROM, FRAME_HEADER_BYTES, FrameHeader, PREAMBLE_BYTES, check_preamble, preamble,
};

pub(crate) use error::WireError;
#[cfg(test)]
use poll::Ready;
pub(crate) use poll::{Bell, is_readable};

/// The moment after `limit`; in a year, if there is no such moment.
pub(crate) fn after(limit: Duration) -> Instant {
    let now = Instant::now();
    let year = Duration::from_hours(24 * 366);
    now.checked_add(limit).unwrap_or_else(|| now + year)
}

/// A frame that came in.
#[derive(Debug)]
pub(crate) struct Frame {
    /// What the payload is.
    pub kind: u8,
    /// The payload.
    pub payload: Vec<u8>,
    /// What came with it.
    pub descriptors: Vec<OwnedFd>,
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Wire {
    stream: Stream,
    /// Whether frames that carry descriptors are taken.
    takes_descriptors: bool,
}

#[derive(Debug)]
enum Stream {
    /// To a server, which is trusted.
    Trusted(UnixStream),
    /// To a client, which may pass anything.
    Served(Aside<UnixStream>, Closer),
}

impl Stream {
    fn get(&self) -> &UnixStream {
        match self {
            Self::Trusted(stream) => stream,
            Self::Served(stream, _) => stream,
        }
    }
}

impl Wire {
    /// Frames over `stream`, whose other end is trusted. Only a client takes descriptors.
    pub fn new(stream: UnixStream, takes_descriptors: bool) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream: Stream::Trusted(stream),
            takes_descriptors,
        })
    }

    /// Frames over the stream of a client, who may pass what takes long to close.
    pub fn served(stream: Aside<UnixStream>, closer: &Closer) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream: Stream::Served(stream, closer.clone()),
            takes_descriptors: false,
        })
    }

    /// Ends the connection in both directions; whoever reads or writes it notices.
    pub fn hang_up(&self) {
        // It fails only when the peer has ended it already.
        let _ended = self.stream.get().shutdown(std::net::Shutdown::Both);
    }

    /// The same connection once more.
    pub fn duplicate(&self) -> io::Result<UnixStream> {
        self.stream.get().try_clone()
    }

    /// Sends the preamble.
    pub fn send_preamble(&self, deadline: Instant) -> Result<(), WireError> {
        self.send(&preamble(), deadline)
    }

    /// Reads and checks the other side's preamble.
    pub fn check_preamble(&self, deadline: Instant) -> Result<(), WireError> {
        let mut bytes = [0; PREAMBLE_BYTES];
        self.fill(&mut bytes, deadline)?;
        Ok(check_preamble(&bytes)?)
    }

    /// Sends bytes. A peer that is gone does not kill this process.
    pub fn send(&self, mut bytes: &[u8], deadline: Instant) -> Result<(), WireError> {
        while !bytes.is_empty() {
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            let sent = self.retried(true, deadline, || send(self.stream.get(), bytes, flags))?;
            bytes = bytes.get(sent..).unwrap_or_default();
        }
        Ok(())
    }

    /// Sends a frame whose payload carries descriptors.
    pub fn send_with(
        &self,
        frame: &[u8],
        descriptors: &[BorrowedFd<'_>],
        deadline: Instant,
    ) -> Result<(), WireError> {
        let split = frame.split_at_checked(FRAME_HEADER_BYTES);
        let (header, payload) = split.unwrap_or_default();
        self.send(header, deadline)?;
        let pass = || descriptors::send(self.stream.get(), payload, descriptors);
        let sent = self.retried(true, deadline, pass)?;
        self.send(payload.get(sent..).unwrap_or_default(), deadline)
    }

    /// The next frame. The deadline is for all of it: a peer that sends byte by byte gains nothing.
    pub fn receive(&self, deadline: Instant) -> Result<Frame, WireError> {
        let mut header = [0; FRAME_HEADER_BYTES];
        self.fill(&mut header, deadline)?;
        let header = FrameHeader::decode(header)?;
        let kind = header.kind;
        let mut payload = vec![0; header.len];
        let mut descriptors = Vec::new();
        let mut got = 0;
        if self.takes_descriptors && kind >= DESCRIPTORS_FROM && !payload.is_empty() {
            let take = || descriptors::receive(self.stream.get(), &mut payload);
            (got, descriptors) = self.retried(false, deadline, take)?;
            if got == 0 {
                return Err(WireError::Closed);
            }
        }
        self.fill(payload.get_mut(got..).unwrap_or_default(), deadline)?;
        Ok(Frame {
            kind,
            payload,
            descriptors,
        })
    }

    /// Waits until there is something to read, or the peer has hung up.
    pub fn until_readable(&self, deadline: Instant) -> Result<(), WireError> {
        poll::until(self.stream.get().as_fd(), false, deadline)
    }

    fn fill(&self, mut bytes: &mut [u8], deadline: Instant) -> Result<(), WireError> {
        while !bytes.is_empty() {
            let stream = self.stream.get();
            let mut read = || recv(stream, &mut *bytes, RecvFlags::DONTWAIT);
            let (_, received) = self.retried(false, deadline, || match &self.stream {
                Stream::Trusted(_) => read(),
                Stream::Served(_, closer) => closer.attend(&mut read),
            })?;
            if received == 0 {
                return Err(WireError::Closed);
            }
            bytes = bytes.get_mut(received..).unwrap_or_default();
        }
        Ok(())
    }

    /// Calls `call` until it does something, or the deadline passes.
    fn retried<T>(
        &self,
        to_write: bool,
        deadline: Instant,
        mut call: impl FnMut() -> rustix::io::Result<T>,
    ) -> Result<T, WireError> {
        loop {
            match call() {
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => poll::until(self.stream.get().as_fd(), to_write, deadline)?,
                result => return result.map_err(WireError::from),
            }
        }
    }
}

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.get().as_fd()
    }
}
