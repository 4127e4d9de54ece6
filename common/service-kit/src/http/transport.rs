//! Streams of requests over a TCP connection: plain, or with deadlines for one request.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep};

/// Makes the stream of requests from a connection that was accepted.
pub trait Transport: Clone + Send + Sync + 'static {
    /// The stream.
    type Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static;

    /// Returns the stream, or none if the client failed at it, such as at a TLS handshake.
    fn open(&self, connection: TcpStream) -> impl Future<Output = Option<Self::Stream>> + Send;
}

/// The connection as it is. Clients may send request after request.
#[derive(Debug, Clone, Copy)]
pub struct Plain;

impl Transport for Plain {
    type Stream = TcpStream;

    async fn open(&self, connection: TcpStream) -> Option<TcpStream> {
        Some(connection)
    }
}

/// Connections for one request each, which end at their deadlines, wherever they are.
///
/// Both deadlines count from one event, so a client gains nothing by trickling bytes. The router must close each
/// connection with its answer.
#[derive(Debug, Clone, Copy)]
pub struct OneRequest {
    /// Longest time for the request to arrive, from the connection on.
    pub request: Duration,
    /// Longest time for its answer to be read, from its first byte on.
    pub answer: Duration,
}

impl Transport for OneRequest {
    type Stream = TimedStream<TcpStream>;

    async fn open(&self, connection: TcpStream) -> Option<Self::Stream> {
        Some(self.over(connection))
    }
}

impl OneRequest {
    /// Returns `stream` with the deadlines, of which the first begins now.
    pub fn over<S>(&self, stream: S) -> TimedStream<S> {
        TimedStream {
            stream,
            deadline: Box::pin(sleep(self.request)),
            answer: Some(self.answer),
        }
    }
}

/// A connection that ends at its deadline.
#[derive(Debug)]
pub struct TimedStream<S> {
    stream: S,
    deadline: Pin<Box<Sleep>>,
    /// Longest time for the answer; none once it has begun.
    answer: Option<Duration>,
}

impl<S: Unpin> TimedStream<S> {
    /// Returns the stream before the deadline. Wakes the task when it passes.
    fn stream(&mut self, cx: &mut Context<'_>) -> io::Result<Pin<&mut S>> {
        if self.deadline.as_mut().poll(cx).is_ready() {
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "the client was too slow",
            ));
        }
        Ok(Pin::new(&mut self.stream))
    }

    /// Returns the stream for writing. The first write begins the answer.
    fn answering(&mut self, cx: &mut Context<'_>) -> io::Result<Pin<&mut S>> {
        if let Some(answer) = self.answer.take() {
            self.deadline.as_mut().reset(Instant::now() + answer);
        }
        self.stream(cx)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.stream(cx)?.poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.answering(cx)?.poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.answering(cx)?.poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream(cx)?.poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream(cx)?.poll_shutdown(cx)
    }
}
