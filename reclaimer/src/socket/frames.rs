//! Reading and writing frames, each by a deadline.
//!
//! Plain reads offer the kernel no place for descriptors, so it drops those that a client passes without ever installing
//! them here. The messages that will carry some read their payload with recvmsg.

use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

use nix::sys::socket::{MsgFlags, recv};
use tetris_agent::daemon::{
    FRAME_HEADER_BYTES, FrameHeader, Message, PREAMBLE_BYTES, ProtocolError,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::UnixStream;
use tokio::time::timeout;

/// A connection's bytes as frames.
#[derive(Debug)]
pub(super) struct Frames {
    stream: UnixStream,
    idle: Duration,
}

/// Why no message came.
#[derive(Debug)]
pub(super) enum Ended {
    /// The client hung up, between two messages or within one.
    Closed,
    /// It did not send a whole message, or take one, in time.
    Stalled,
    /// What it sent is no frame: where the next one begins is unknown.
    Broken(ProtocolError),
}

impl From<io::Error> for Ended {
    /// A local stream has no other errors than that the peer is gone.
    fn from(_: io::Error) -> Self {
        Self::Closed
    }
}

impl Frames {
    pub(super) fn new(stream: UnixStream, idle: Duration) -> Self {
        Self { stream, idle }
    }

    /// The client's first bytes.
    pub(super) async fn preamble(&mut self) -> Result<[u8; PREAMBLE_BYTES], Ended> {
        let mut bytes = [0; PREAMBLE_BYTES];
        let read = self.stream.read_exact(&mut bytes);
        timeout(self.idle, read)
            .await
            .map_err(|_| Ended::Stalled)??;
        Ok(bytes)
    }

    /// The next message; the inner error is one of a whole frame, after which others can be read. The time is for all of
    /// it: a client that sends byte by byte gains nothing.
    pub(super) async fn receive(&mut self) -> Result<Result<Message, ProtocolError>, Ended> {
        let stream = &mut self.stream;
        let read = async {
            let mut header = [0; FRAME_HEADER_BYTES];
            stream.read_exact(&mut header).await?;
            let header = FrameHeader::decode(header).map_err(Ended::Broken)?;
            // Allocated once a header came, at most 64 KiB.
            let mut payload = vec![0; header.len];
            stream.read_exact(&mut payload).await?;
            Ok(Message::decode(header.kind, &payload))
        };
        timeout(self.idle, read).await.map_err(|_| Ended::Stalled)?
    }

    /// Sends bytes.
    pub(super) async fn send(&mut self, bytes: &[u8]) -> Result<(), Ended> {
        let written = self.stream.write_all(bytes);
        Ok(timeout(self.idle, written)
            .await
            .map_err(|_| Ended::Stalled)??)
    }

    /// Waits until the client sends something, `true`, or hangs up. Takes nothing.
    pub(super) async fn disturbed(&self) -> bool {
        let peek = || {
            let flags = MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT;
            Ok(recv(self.stream.as_raw_fd(), &mut [0], flags)?)
        };
        let peeked = self.stream.async_io(Interest::READABLE, peek).await;
        peeked.is_ok_and(|len| len > 0)
    }
}
