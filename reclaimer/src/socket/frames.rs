//! Reading and writing frames, each by a deadline.
//!
//! Anything may be passed with any byte, and the kernel closes in the reading thread what a reader has no room for. So every read has room for
//! all that can come, and what no message asked for is closed aside.

use std::any::Any;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use nix::sys::socket::{MsgFlags, recv, send};
use tetris_agent::daemon::{
    FRAME_HEADER_BYTES, FrameHeader, INGEST, INGEST_PAYLOAD_BYTES, Message, PREAMBLE_BYTES,
    ProtocolError,
};
use tetris_closer::{Aside, Closer, receive};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::ingest::PassedFile;

/// Messages with unexpected descriptors of one store that may be open at a time, 253 descriptors each. What is read without any does not count for
/// longer than the reading.
const OPEN_MESSAGES: usize = 4;

/// Who closes what came through a store's socket, and how much of it may be open.
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
    /// Free while nothing is open that came with this connection's earlier messages.
    clear: Arc<Semaphore>,
    place: Arc<dyn Any + Send + Sync>,
}

/// A whole frame.
#[derive(Debug)]
pub(super) struct Incoming {
    /// The message, or why the frame is none; others can be read after it.
    pub(super) message: Result<Message, ProtocolError>,
    /// What came with the payload of a kind that carries one.
    pub(super) descriptors: Descriptors,
}

/// Descriptors that came with a message.
#[derive(Debug, Default)]
pub(super) struct Descriptors {
    /// How many there were, as far as can be known.
    pub(super) found: usize,
    /// The only one; of several none is taken.
    pub(super) only: Option<PassedFile>,
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
    /// Frames over `stream`. `place` is kept until the stream and all that came through it are closed.
    pub(super) fn new(
        mut stream: Aside<UnixStream>,
        idle: Duration,
        intake: Intake,
        place: Arc<dyn Any + Send + Sync>,
    ) -> Self {
        stream.keep(Arc::clone(&place));
        Self {
            stream,
            idle,
            intake,
            clear: Arc::new(Semaphore::new(1)),
            place,
        }
    }

    /// The client's first bytes.
    pub(super) async fn preamble(&mut self) -> Result<[u8; PREAMBLE_BYTES], Ended> {
        let mut bytes = [0; PREAMBLE_BYTES];
        timeout(self.idle, self.fill(&mut bytes))
            .await
            .map_err(|_| Ended::Stalled)??;
        Ok(bytes)
    }

    /// The next frame. The time is for all of it: a client that sends byte by byte gains nothing.
    pub(super) async fn receive(&mut self) -> Result<Incoming, Ended> {
        let read = async {
            let mut header = [0; FRAME_HEADER_BYTES];
            self.fill(&mut header).await?;
            let header = FrameHeader::decode(header).map_err(Ended::Broken)?;
            // Allocated once a header came, at most 64 KiB.
            let mut payload = vec![0; header.len];
            // Of any other length it is no such message, and nothing that comes with it is wanted.
            let passes = header.kind == INGEST && header.len == INGEST_PAYLOAD_BYTES;
            let descriptors = if passes {
                self.passed(&mut payload).await?
            } else {
                self.fill(&mut payload).await?;
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

    /// Waits until the client sends something, `true`, or hangs up. Takes nothing: neither bytes nor descriptors.
    pub(super) async fn disturbed(&self) -> bool {
        let peek = || {
            let flags = MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT;
            Ok(recv(self.stream.as_raw_fd(), &mut [0], flags)?)
        };
        let peeked = self.stream.async_io(Interest::READABLE, peek).await;
        peeked.is_ok_and(|len| len > 0)
    }

    /// Reads so many bytes. Nothing that comes with them is wanted.
    async fn fill(&self, bytes: &mut [u8]) -> io::Result<()> {
        let mut left = bytes;
        while !left.is_empty() {
            let read = self.read(left).await?;
            left = left.get_mut(read.bytes..).unwrap_or_default();
            self.close(read);
        }
        Ok(())
    }

    /// Reads a payload of one byte, and takes the descriptors that come with it.
    async fn passed(&self, payload: &mut [u8]) -> io::Result<Descriptors> {
        let mut read = self.read(payload).await?;
        let found = read.descriptors.len() + usize::from(read.lost);
        let mut only = None;
        if found == 1
            && let Some(one) = read.descriptors.pop()
        {
            // It may be read for hours. Until it is closed nothing more is read from this connection.
            let place = (Arc::clone(&self.place), read.clear);
            only = Some(PassedFile::new(one, Arc::new(place), &self.intake.closer));
        } else {
            self.close(read);
        }
        Ok(Descriptors { found, only })
    }

    /// Reads what there is, at least a byte.
    async fn read(&self, bytes: &mut [u8]) -> io::Result<Read> {
        loop {
            self.stream.readable().await?;
            // Bounds what is open: a client that passes what takes long to close waits for that, and others of its store for a part of it.
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

    /// Closes what nobody asked for.
    fn close(&self, read: Read) {
        if !read.descriptors.is_empty() {
            // In this order.
            let kept = (read.clear, read.message, Arc::clone(&self.place));
            self.intake.closer.close((read.descriptors, kept));
        }
    }
}

/// What was read at once, and the permits to have what came with it open.
struct Read {
    bytes: usize,
    descriptors: Vec<OwnedFd>,
    lost: bool,
    clear: OwnedSemaphorePermit,
    message: OwnedSemaphorePermit,
}

/// Nothing was there, or a signal came.
fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

async fn acquired(semaphore: &Arc<Semaphore>) -> io::Result<OwnedSemaphorePermit> {
    let permit = Arc::clone(semaphore).acquire_owned().await;
    // Nobody closes it.
    permit.map_err(io::Error::other)
}
