//! Connections of gRPC servers, within limits: tonic accepts any number, and waits for the first bytes of each.

use std::io::{self, IoSlice};
use std::net::IpAddr;
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

/// Returns connections as they come, as many as `clients` has places for. Each has so much time to `begin`, and keeps
/// what `admit` gives for its address; without that it is closed at once, so that others' connections stay.
pub fn accept<H>(
    listener: TcpListener,
    clients: Clients,
    begin: Duration,
    admit: impl Fn(IpAddr) -> Option<H>,
) -> impl Stream<Item = io::Result<GrpcConnection<H>>> {
    TcpListenerStream::new(listener).filter_map(move |accepted| {
        let opened = accepted.map(|stream| {
            let address = stream.peer_addr().ok()?.ip();
            let Some(held) = clients.enter(address).zip(admit(address)) else {
                tracing::debug!(%address, "too many connections");
                return None;
            };
            drop(stream.set_nodelay(true));
            Some(GrpcConnection::new(stream, begin, held))
        });
        std::future::ready(opened.transpose())
    })
}

/// A connection with its place, which ends if it does not begin in time.
#[derive(Debug)]
pub struct GrpcConnection<H> {
    stream: TcpStream,
    /// Number of bytes that must come before the time is over.
    missing: usize,
    late: Pin<Box<Sleep>>,
    _held: (Place, H),
}

impl<H> GrpcConnection<H> {
    fn new(stream: TcpStream, begin: Duration, held: (Place, H)) -> Self {
        Self {
            stream,
            missing: BEGIN,
            late: Box::pin(sleep(begin)),
            _held: held,
        }
    }
}

impl<H> Connected for GrpcConnection<H> {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        self.stream.connect_info()
    }
}

impl<H: Unpin> AsyncRead for GrpcConnection<H> {
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

impl<H: Unpin> AsyncWrite for GrpcConnection<H> {
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
