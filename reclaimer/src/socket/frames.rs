//! Frames over a transport of tokio, each by a deadline.
//!
//! A client may pass descriptors with any byte, and the kernel closes in the reading thread those
//! for which a reader has no room. So every read has room for all that can come, and descriptors
//! that no message asked for are closed aside.

use std::any::Any;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use nix::sys::socket::{MsgFlags, recv, send};
use tetris_wire::daemon::{Message, carries_descriptor};
use tetris_wire::{
    Aside, Closer, Decode, FRAME_HEADER_BYTES, FrameDecoder, PREAMBLE_BYTES, PreambleDecoder,
    ProtocolError, pass, receive,
};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::ingest::PassedFile;

/// Maximum number of messages of one store whose unexpected descriptors are open, 253 descriptors
/// each. A message without descriptors counts only while it is read.
const OPEN_MESSAGES: usize = 4;

/// The closer of descriptors that came through a store's socket, and their limit.
#[derive(Debug, Clone)]
pub(super) struct Intake {
    pub(super) closer: Closer,
    messages: Arc<Semaphore>,
}

impl Intake {
    pub(super) fn new(closer: Closer) -> Self {
        Self {
            closer,
            messages: Arc::new(Semaphore::new(OPEN_MESSAGES)),
        }
    }
}

/// A connection's bytes as frames.
#[derive(Debug)]
pub(super) struct Frames {
    stream: Aside<UnixStream>,
    idle: Duration,
    intake: Intake,
    /// Free while no descriptor of this connection's earlier messages is open.
    clear: Arc<Semaphore>,
    permit: Arc<dyn Any + Send + Sync>,
}

/// A whole frame.
#[derive(Debug)]
pub(super) struct Incoming {
    /// The message, or the reason the frame is none; others can be read after it.
    pub(super) message: Result<Message, ProtocolError>,
    /// Descriptors that came with the payload of a kind that carries one.
    pub(super) descriptors: Descriptors,
}

/// Descriptors that came with a message.
#[derive(Debug, Default)]
pub(super) struct Descriptors {
    /// Number of descriptors that came, as far as can be known.
    pub(super) found: usize,
    /// The only one; of several none is taken.
    pub(super) only: Option<PassedFile>,
}

/// The reason no message came.
#[derive(Debug)]
pub(super) enum Ended {
    /// The client hung up, between two messages or within one.
    Closed,
    /// It did not send a whole message, or take one, in time.
    Stalled,
    /// It sent bytes that are no frame: the start of the next one is unknown.
    Broken(ProtocolError),
}

impl From<io::Error> for Ended {
    /// A local stream has no other errors than that the peer is gone.
    fn from(_: io::Error) -> Self {
        Self::Closed
    }
}

impl Frames {
    /// Frames over `stream`. `permit` is kept until the stream and all descriptors that came
    /// through it are closed.
    pub(super) fn new(
        mut stream: Aside<UnixStream>,
        idle: Duration,
        intake: Intake,
        permit: Arc<dyn Any + Send + Sync>,
    ) -> Self {
        stream.keep(Arc::clone(&permit));
        Self {
            stream,
            idle,
            intake,
            clear: Arc::new(Semaphore::new(1)),
            permit,
        }
    }

    /// The client's first bytes.
    pub(super) async fn preamble(&mut self) -> Result<[u8; PREAMBLE_BYTES], Ended> {
        let read = self.decode(PreambleDecoder::default());
        let (bytes, _) = timeout(self.idle, read)
            .await
            .map_err(|_| Ended::Stalled)??;
        Ok(bytes)
    }

    /// The next frame. The time is for all of it: a client that sends byte by byte gains nothing.
    pub(super) async fn receive(&mut self) -> Result<Incoming, Ended> {
        let read = async {
            let decoder = FrameDecoder::new(carries_descriptor);
            let (frame, descriptors) = self.decode(decoder).await?;
            let message = Message::decode(frame.kind, &frame.payload);
            Ok(Incoming {
                message,
                descriptors,
            })
        };
        timeout(self.idle, read).await.map_err(|_| Ended::Stalled)?
    }

    /// Sends bytes.
    pub(super) async fn send(&mut self, bytes: &[u8]) -> Result<(), Ended> {
        let write = async {
            let mut left = bytes;
            while !left.is_empty() {
                let send = || {
                    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
                    Ok(send(self.stream.as_raw_fd(), left, flags)?)
                };
                let sent = self.stream.async_io(Interest::WRITABLE, send).await?;
                left = left.get(sent..).unwrap_or_default();
            }
            Ok(())
        };
        timeout(self.idle, write)
            .await
            .map_err(|_| Ended::Stalled)?
    }

    /// Sends a frame whose payload carries a descriptor. The header goes first, by itself, so that the client knows
    /// before it reads it.
    pub(super) async fn send_with(
        &mut self,
        frame: &[u8],
        descriptor: BorrowedFd<'_>,
    ) -> Result<(), Ended> {
        let (header, payload) = frame
            .split_at_checked(FRAME_HEADER_BYTES)
            .unwrap_or_default();
        self.send(header).await?;
        let write = self.stream.async_io(Interest::WRITABLE, || {
            Ok(pass(&*self.stream, payload, &[descriptor])?)
        });
        let sent = timeout(self.idle, write)
            .await
            .map_err(|_| Ended::Stalled)??;
        self.send(payload.get(sent..).unwrap_or_default()).await
    }

    /// Waits until the client sends something, `true`, or hangs up. Takes nothing: neither bytes
    /// nor descriptors.
    pub(super) async fn disturbed(&self) -> bool {
        let peek = || {
            let flags = MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT;
            Ok(recv(self.stream.as_raw_fd(), &mut [0], flags)?)
        };
        let peeked = self.stream.async_io(Interest::READABLE, peek).await;
        peeked.is_ok_and(|len| len > 0)
    }

    /// Reads one item, and the descriptors that belong to it.
    async fn decode<D: Decode>(&self, mut decoder: D) -> Result<(D::Item, Descriptors), Ended> {
        let mut descriptors = Descriptors::default();
        loop {
            let takes = decoder.takes_descriptors();
            let read = self.read(decoder.room()).await?;
            let bytes = read.bytes;
            if takes {
                descriptors = self.take(read);
            } else {
                self.close(read);
            }
            if let Some(item) = decoder.filled(bytes).map_err(Ended::Broken)? {
                return Ok((item, descriptors));
            }
        }
    }

    /// Takes the only descriptor that came with a read; of several none.
    fn take(&self, mut read: Read) -> Descriptors {
        let count = read.descriptors.len() + usize::from(read.lost);
        let mut only = None;
        if count == 1
            && let Some(one) = read.descriptors.pop()
        {
            // It may be read for hours. Until it is closed nothing more is read from this
            // connection.
            let kept = (Arc::clone(&self.permit), read.clear);
            only = Some(PassedFile::new(one, Arc::new(kept), &self.intake.closer));
        } else {
            self.close(read);
        }
        Descriptors { found: count, only }
    }

    /// Reads the bytes that are there, at least one.
    async fn read(&self, bytes: &mut [u8]) -> io::Result<Read> {
        loop {
            self.stream.readable().await?;
            // Bounds open descriptors: a client that passes files that take long to close waits for
            // them, and other clients of its store for a part of them.
            let clear = acquired(&self.clear).await?;
            let message = acquired(&self.intake.messages).await?;
            let receive = || Ok(receive(&*self.stream, bytes)?);
            match self.stream.try_io(Interest::READABLE, receive) {
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(error),
                Ok(received) => {
                    let read = Read {
                        bytes: received.bytes,
                        descriptors: received.descriptors,
                        lost: received.lost,
                        clear,
                        message,
                    };
                    if read.bytes > 0 {
                        return Ok(read);
                    }
                    self.close(read);
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
        }
    }

    /// Closes descriptors that no message asked for.
    fn close(&self, read: Read) {
        if !read.descriptors.is_empty() {
            // In this order.
            let kept = (read.clear, read.message, Arc::clone(&self.permit));
            self.intake.closer.close((read.descriptors, kept));
        }
    }
}

/// Result of one read, and the permits to have its descriptors open.
struct Read {
    bytes: usize,
    descriptors: Vec<OwnedFd>,
    lost: bool,
    clear: OwnedSemaphorePermit,
    message: OwnedSemaphorePermit,
}

/// Returns true if nothing was there, or a signal came.
fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

async fn acquired(semaphore: &Arc<Semaphore>) -> io::Result<OwnedSemaphorePermit> {
    let permit = Arc::clone(semaphore).acquire_owned().await;
    // No one closes it.
    permit.map_err(io::Error::other)
}
