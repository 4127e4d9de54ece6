//! A stream that gives its reader few bytes at a time.
//!
//! An HTTP/2 connection decodes all that it can read before it hands over the first head, and a byte of a head can
//! become a hundred in memory. After [`TURN`] bytes the reader gets no more until other tasks had their turn.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Number of bytes of one turn.
const TURN: usize = 8 << 10;

/// A stream whose reader lets others have their turn.
#[derive(Debug)]
pub(crate) struct BoundedReads<S> {
    stream: S,
    /// Number of bytes read in this turn.
    read: usize,
}

impl<S> BoundedReads<S> {
    pub(crate) const fn new(stream: S) -> Self {
        Self { stream, read: 0 }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for BoundedReads<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.read >= TURN {
            self.read = 0;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if polled.is_pending() {
            self.read = 0;
        }
        ready!(polled)?;
        let length = buffer.filled().len().saturating_sub(before);
        self.read = self.read.saturating_add(length);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for BoundedReads<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    #[test]
    fn a_reader_gets_no_more_than_its_turn_and_is_woken_for_the_next() {
        let bytes = vec![7; TURN * 3];
        let mut reads = BoundedReads::new(&bytes[..]);
        let mut cx = Context::from_waker(Waker::noop());
        let mut turn = || {
            let mut length = 0;
            let mut space = [0; 1_000];
            loop {
                let mut buffer = ReadBuf::new(&mut space);
                match Pin::new(&mut reads).poll_read(&mut cx, &mut buffer) {
                    Poll::Ready(read) => {
                        read.unwrap();
                        if buffer.filled().is_empty() {
                            return length;
                        }
                        length += buffer.filled().len();
                    }
                    Poll::Pending => return length,
                }
            }
        };
        let turns: Vec<_> =
            std::iter::from_fn(|| Some(turn()).filter(|length| *length > 0)).collect();
        assert_eq!(turns.iter().sum::<usize>(), bytes.len());
        assert!(turns.len() >= 3 && turns.iter().all(|length| *length < TURN + 1_000));
    }
}
