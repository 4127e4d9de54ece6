//! Peers that pace a connection: what they take of an answer, and what they send of a body.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use axum::body::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep_until};

use crate::pace::{Pace, Progress};

/// Progress of a peer, with a timer that wakes the task when it is overdue.
#[derive(Debug)]
struct Watch {
    progress: Progress,
    /// Made with the first wait: few peers are ever waited for.
    timer: Option<Pin<Box<Sleep>>>,
}

impl Watch {
    const fn new(pace: Pace) -> Self {
        Self {
            progress: Progress::new(pace),
            timer: None,
        }
    }

    /// Notes what came of an attempt: the number of bytes that moved, or a wait. Fails once the peer is overdue.
    fn attempted(&mut self, cx: &mut Context<'_>, moved: Poll<usize>) -> io::Result<()> {
        let Poll::Pending = moved else {
            if let Poll::Ready(bytes) = moved {
                self.progress.moved(now(), bytes);
            }
            return Ok(());
        };
        let end = self.progress.waits(now()).into();
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(end)));
        if timer.deadline() != end {
            timer.as_mut().reset(end);
        }
        if timer.as_mut().poll(cx).is_ready() {
            let problem = "the peer is too slow";
            return Err(io::Error::new(io::ErrorKind::TimedOut, problem));
        }
        Ok(())
    }
}

/// A connection whose peer must take what is written, at a least rate.
#[derive(Debug)]
pub(super) struct PacedWrites<S> {
    stream: S,
    watch: Watch,
}

impl<S> PacedWrites<S> {
    pub(super) const fn new(stream: S, pace: Pace) -> Self {
        Self {
            stream,
            watch: Watch::new(pace),
        }
    }

    fn wrote(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let moved = match &written {
            Poll::Ready(Ok(bytes)) => Poll::Ready(*bytes),
            Poll::Ready(Err(_)) => return written,
            Poll::Pending => Poll::Pending,
        };
        match self.watch.attempted(cx, moved) {
            Ok(()) => written,
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for PacedWrites<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for PacedWrites<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.wrote(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.wrote(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        // TLS may hold its own bytes.
        let moved = flushed.is_pending().then_some(Poll::Pending);
        if let Some(moved) = moved {
            self.watch.attempted(cx, moved)?;
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Body of a request whose client must send it, at a least rate.
#[derive(Debug)]
pub(super) struct PacedBody {
    body: Incoming,
    watch: Watch,
}

impl PacedBody {
    pub(super) const fn new(body: Incoming, pace: Pace) -> Self {
        Self {
            body,
            watch: Watch::new(pace),
        }
    }
}

impl Body for PacedBody {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        let moved = match &frame {
            Poll::Ready(Some(Ok(frame))) => Poll::Ready(frame.data_ref().map_or(0, Bytes::len)),
            Poll::Ready(_) => Poll::Ready(0),
            Poll::Pending => Poll::Pending,
        };
        if let Err(error) = self.watch.attempted(cx, moved) {
            return Poll::Ready(Some(Err(error.into())));
        }
        frame.map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The time, as tests may set it.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
