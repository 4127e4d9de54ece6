//! Stream of a client, with bytes that were read ahead of hyper.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf as _, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::activity::Activity;
use super::ledger::Ledger;

/// Stream that gives the bytes read ahead first, and reports whether its output is written.
#[derive(Debug)]
pub(crate) struct ClientStream<S> {
    ahead: Bytes,
    stream: S,
    activity: Arc<Activity>,
    ledger: Arc<Ledger>,
    /// Largest space that hyper had for bytes; it is charged.
    space: usize,
}

/// Space for bytes that each connection is charged for from its begin.
pub(crate) const SPACE: usize = 8 << 10;

impl<S> ClientStream<S> {
    pub(crate) const fn new(
        ahead: Bytes,
        stream: S,
        activity: Arc<Activity>,
        ledger: Arc<Ledger>,
    ) -> Self {
        Self {
            ahead,
            stream,
            activity,
            ledger,
            space: SPACE,
        }
    }

    /// Charges the space that hyper has for bytes.
    fn charge(&mut self, space: usize) -> io::Result<()> {
        let more = space.saturating_sub(self.space);
        if more > 0 {
            self.ledger.keep(more).map_err(io::Error::other)?;
            self.space = space;
        }
        Ok(())
    }

    fn wrote(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match &written {
            Poll::Ready(Ok(length)) => self.ledger.wrote(*length),
            Poll::Ready(Err(_)) => {}
            Poll::Pending => self.ledger.blocked(),
        }
        written
    }

    /// Returns the stream, and the bytes that are unread.
    pub(crate) fn into_parts(self) -> (S, Bytes) {
        (self.stream, self.ahead)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ClientStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.charge(buffer.remaining())?;
        if self.activity.is_hostile() {
            let problem = "many heads with more fields than limits.headers";
            return Poll::Ready(Err(io::Error::other(problem)));
        }
        if self.ahead.is_empty() {
            return Pin::new(&mut self.stream).poll_read(cx, buffer);
        }
        let length = self.ahead.len().min(buffer.remaining());
        let first = self.ahead.get(..length).unwrap_or_default();
        buffer.put_slice(first);
        self.ahead.advance(length);
        if self.ahead.is_empty() {
            // Frees the memory.
            self.ahead = Bytes::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ClientStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.activity.set_unwritten(true);
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.wrote(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.activity.set_unwritten(true);
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.wrote(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// hyper flushes once it has written all that it had to write.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        if matches!(flushed, Poll::Ready(Ok(()))) {
            self.activity.set_unwritten(false);
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
