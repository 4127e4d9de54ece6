//! Reading and writing frames, each by a deadline.
//!
//! Plain reads offer the kernel no place for descriptors, so it drops those that a client passes without ever installing
//! them here. The payload of a message that carries one is read with recvmsg.

use std::any::Any;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use nix::sys::socket::{MsgFlags, recv};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, recvmsg};
use tetris_agent::daemon::{
    FRAME_HEADER_BYTES, FrameHeader, INGEST, INGEST_PAYLOAD_BYTES, Message, PREAMBLE_BYTES,
    ProtocolError,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::UnixStream;
use tokio::time::timeout;

use crate::ingest::Passed;

/// A connection's bytes as frames.
#[derive(Debug)]
pub(super) struct Frames {
    stream: UnixStream,
    idle: Duration,
}

/// A whole frame.
#[derive(Debug)]
pub(super) struct Incoming {
    /// The message, or why the frame is none; others can be read after it.
    pub(super) message: Result<Message, ProtocolError>,
    /// What came with it. Of a kind that carries none, the kernel has dropped what came.
    pub(super) descriptors: Descriptors,
}

/// Descriptors that came with a message.
#[derive(Debug, Default)]
pub(super) struct Descriptors {
    /// At most as many as there was place for, two.
    open: Vec<OwnedFd>,
    /// There were more, which the kernel has dropped.
    more: bool,
}

impl Descriptors {
    /// How many came, as far as can be known.
    pub(super) fn len(&self) -> usize {
        self.open.len() + usize::from(self.more)
    }

    /// The only one; otherwise all are closed.
    pub(super) fn single(mut self, place: Arc<dyn Any + Send + Sync>) -> Option<Passed> {
        if self.len() == 1 {
            return self.open.pop().map(|one| Passed::new(one, place));
        }
        self.close(&place);
        None
    }

    /// Closes all. That may block, and `place` is kept meanwhile.
    pub(super) fn close(self, place: &Arc<dyn Any + Send + Sync>) {
        for descriptor in self.open {
            Passed::new(descriptor, Arc::clone(place)).close_aside();
        }
    }
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

    /// The next frame. The time is for all of it: a client that sends byte by byte gains nothing.
    pub(super) async fn receive(&mut self) -> Result<Incoming, Ended> {
        let stream = &mut self.stream;
        let read = async {
            let mut header = [0; FRAME_HEADER_BYTES];
            stream.read_exact(&mut header).await?;
            let header = FrameHeader::decode(header).map_err(Ended::Broken)?;
            // Allocated once a header came, at most 64 KiB.
            let mut payload = vec![0; header.len];
            // Of any other length it is no such message, and nothing that comes with it is wanted.
            let passes = header.kind == INGEST && header.len == INGEST_PAYLOAD_BYTES;
            let descriptors = if passes {
                passed(stream, &mut payload).await?
            } else {
                stream.read_exact(&mut payload).await?;
                Descriptors::default()
            };
            let message = Message::decode(header.kind, &payload);
            Ok(Incoming {
                message,
                descriptors,
            })
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

/// Reads a payload of one byte, and the descriptors that come with it.
async fn passed(stream: &UnixStream, payload: &mut [u8]) -> io::Result<Descriptors> {
    let read = || {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let mut parts = [IoSliceMut::new(payload)];
        let received = recvmsg(stream, &mut parts, &mut control, flags)?;
        let mut descriptors = Descriptors {
            open: Vec::new(),
            more: received.flags.contains(ReturnFlags::CTRUNC),
        };
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                descriptors.open.extend(rights);
            }
        }
        match received.bytes {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(descriptors),
        }
    };
    stream.async_io(Interest::READABLE, read).await
}
