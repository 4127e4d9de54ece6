//! Connections of gRPC servers, within limits: tonic accepts any number, and waits for the first bytes of each.

use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::{Stream, StreamExt as _};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Sleep, sleep};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::server::{Connected, TcpConnectInfo};

use crate::clients::{Clients, Place};

/// Length of the first bytes of HTTP/2, with the head of a frame.
const BEGIN: usize = 33;

/// Returns connections as they come, as many as `clients` has places for; more are closed at once, so that others'
/// connections stay. Each has so much time to `begin`.
pub fn accept(
    listener: TcpListener,
    clients: Clients,
    begin: Duration,
) -> impl Stream<Item = io::Result<GrpcConnection>> {
    TcpListenerStream::new(listener).filter_map(move |accepted| {
        let opened = accepted.map(|stream| {
            let address = stream.peer_addr().ok()?.ip();
            let Some(place) = clients.enter(address) else {
                tracing::debug!(%address, "too many connections");
                return None;
            };
            drop(stream.set_nodelay(true));
            Some(GrpcConnection::new(stream, begin, place))
        });
        std::future::ready(opened.transpose())
    })
}

/// A connection with its place, which ends if it does not begin in time.
#[derive(Debug)]
pub struct GrpcConnection {
    stream: TcpStream,
    /// Number of bytes that must come before the time is over.
    missing: usize,
    late: Pin<Box<Sleep>>,
    _place: Place,
}

impl GrpcConnection {
    fn new(stream: TcpStream, begin: Duration, place: Place) -> Self {
        Self {
            stream,
            missing: BEGIN,
            late: Box::pin(sleep(begin)),
            _place: place,
        }
    }
}

impl Connected for GrpcConnection {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        self.stream.connect_info()
    }
}

impl AsyncRead for GrpcConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.missing > 0 && self.late.as_mut().poll(cx).is_ready() {
            let problem = "no request by HTTP/2 came in time";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, problem)));
        }
        let before = buffer.filled().len();
        let read = pin!(&mut self.stream).poll_read(cx, buffer);
        let read_bytes = buffer.filled().len().saturating_sub(before);
        self.missing = self.missing.saturating_sub(read_bytes);
        read
    }
}

impl AsyncWrite for GrpcConnection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        pin!(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        pin!(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        pin!(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        pin!(&mut self.stream).poll_shutdown(cx)
    }
}
