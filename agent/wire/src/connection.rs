//! Frames over a UNIX socket. Nothing here blocks beyond a deadline.
//!
//! A read that no frame wants descriptors from has no control buffer, so the kernel closes in the
//! reading thread descriptors that come with it, and never installs them here. Closing may wait: a
//! server reads each connection in its own thread, has such waits ended, and closes streams
//! aside, with their unread queue.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::{
    Aside, Closer, Decode, FRAME_HEADER_BYTES, Frame, FrameDecoder, FrameHeader, PREAMBLE_BYTES,
    PreambleDecoder, WireError, descriptors, no_descriptors, wait,
};

/// Time `limit` from now; a year from now if that overflows.
pub fn after(limit: Duration) -> Instant {
    let now = Instant::now();
    let year = Duration::from_hours(24 * 366);
    now.checked_add(limit).unwrap_or_else(|| now + year)
}

/// A connection.
#[derive(Debug)]
pub struct Connection {
    stream: Stream,
    /// Returns true for frames whose descriptors are taken.
    takes: fn(FrameHeader) -> bool,
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

impl Connection {
    /// Frames over `stream`, whose other end is trusted. Takes the descriptors of frames for which
    /// `takes` returns true.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn trusted(stream: UnixStream, takes: fn(FrameHeader) -> bool) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        let stream = Stream::Trusted(stream);
        Ok(Self { stream, takes })
    }

    /// Frames over the stream of a client, which may pass files that take long to close. Takes no
    /// descriptors.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn served(stream: Aside<UnixStream>, closer: &Closer) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream: Stream::Served(stream, closer.clone()),
            takes: no_descriptors,
        })
    }

    /// Ends the connection in both directions; its readers and writers notice.
    pub fn hang_up(&self) {
        // It fails only when the peer has ended it already.
        let _ended = self.stream.get().shutdown(std::net::Shutdown::Both);
    }

    /// Duplicates the descriptor of the connection.
    ///
    /// # Errors
    ///
    /// The system's error.
    pub fn duplicate(&self) -> io::Result<UnixStream> {
        self.stream.get().try_clone()
    }

    /// Sends bytes. A closed peer does not kill this process (`MSG_NOSIGNAL`).
    ///
    /// # Errors
    ///
    /// [`WireError`] if the peer hung up or did not take them in time.
    pub fn send(&self, mut bytes: &[u8], deadline: Instant) -> Result<(), WireError> {
        while !bytes.is_empty() {
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            let sent = self.retried(true, deadline, || send(self.stream.get(), bytes, flags))?;
            bytes = bytes.get(sent..).unwrap_or_default();
        }
        Ok(())
    }

    /// Sends a frame whose payload carries descriptors. The header goes first, by itself, so that
    /// the reader knows before it reads them.
    ///
    /// # Errors
    ///
    /// [`WireError`] if the peer hung up or did not take it in time, or if there are more than
    /// [`MAX_DESCRIPTORS`](crate::MAX_DESCRIPTORS).
    pub fn send_with(
        &self,
        frame: &[u8],
        descriptors: &[BorrowedFd<'_>],
        deadline: Instant,
    ) -> Result<(), WireError> {
        let split = frame.split_at_checked(FRAME_HEADER_BYTES);
        let (header, payload) = split.unwrap_or_default();
        self.send(header, deadline)?;
        let pass = || descriptors::pass(self.stream.get(), payload, descriptors);
        let sent = self.retried(true, deadline, pass)?;
        self.send(payload.get(sent..).unwrap_or_default(), deadline)
    }

    /// Receives the other side's preamble, unchecked.
    ///
    /// # Errors
    ///
    /// [`WireError`] if the peer hung up or did not send it in time.
    pub fn preamble(&self, deadline: Instant) -> Result<[u8; PREAMBLE_BYTES], WireError> {
        Ok(self.read(PreambleDecoder::default(), deadline)?.0)
    }

    /// Receives the next frame and its descriptors. The deadline is for the whole frame, also
    /// against a peer that sends byte by byte. After an error no other frame can be received.
    ///
    /// # Errors
    ///
    /// [`WireError`] if the peer hung up or did not send a whole frame in time, or the frame is too long.
    pub fn receive(&self, deadline: Instant) -> Result<(Frame, Vec<OwnedFd>), WireError> {
        self.read(FrameDecoder::new(self.takes), deadline)
    }

    /// Waits until the socket is readable, or the peer has hung up.
    ///
    /// # Errors
    ///
    /// [`WireError::TimedOut`] at the deadline, [`WireError::Io`] if the wait fails.
    pub fn until_readable(&self, deadline: Instant) -> Result<(), WireError> {
        wait::until(self.stream.get().as_fd(), false, deadline)
    }

    fn read<D: Decode>(
        &self,
        mut decoder: D,
        deadline: Instant,
    ) -> Result<(D::Item, Vec<OwnedFd>), WireError> {
        let mut descriptors = Vec::new();
        loop {
            let takes = decoder.takes_descriptors();
            let room = decoder.room();
            let bytes = if takes {
                let stream = self.stream.get();
                let take = || descriptors::receive(stream, room);
                let received = self.retried(false, deadline, take)?;
                descriptors.extend(received.descriptors);
                if received.lost {
                    // This process may open no more files.
                    return Err(Errno::MFILE.into());
                }
                received.bytes
            } else {
                self.read_bytes(room, deadline)?
            };
            if bytes == 0 {
                return Err(WireError::Closed);
            }
            if let Some(item) = decoder.filled(bytes)? {
                return Ok((item, descriptors));
            }
        }
    }

    fn read_bytes(&self, room: &mut [u8], deadline: Instant) -> Result<usize, WireError> {
        let stream = self.stream.get();
        let mut read = || recv(stream, &mut *room, RecvFlags::DONTWAIT);
        let (_, received) = self.retried(false, deadline, || match &self.stream {
            Stream::Trusted(_) => read(),
            Stream::Served(_, closer) => closer.attend(&mut read),
        })?;
        Ok(received)
    }

    /// Calls `call` until it succeeds or fails for good, or the deadline passes.
    fn retried<T>(
        &self,
        to_write: bool,
        deadline: Instant,
        mut call: impl FnMut() -> rustix::io::Result<T>,
    ) -> Result<T, WireError> {
        loop {
            match call() {
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => wait::until(self.stream.get().as_fd(), to_write, deadline)?,
                result => return result.map_err(WireError::from),
            }
        }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.get().as_fd()
    }
}
