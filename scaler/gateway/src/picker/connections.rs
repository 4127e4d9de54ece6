//! Connections of data planes, within limits.

use std::io::{self, IoSlice};
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::{Stream, StreamExt as _};
use tetris_service_kit::budget::Charge;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Sleep, sleep};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::server::{Connected, TcpConnectInfo};

use crate::config::{Limits, Timeouts};
use crate::memory::{Memory, client};
use crate::server::{Clients, Place};

/// Length of the first bytes of HTTP/2, with the head of a frame.
const BEGIN: usize = 33;
/// Bytes that a data plane may have on its way, on streams that wait.
pub(super) const WINDOW: u32 = 256 << 10;
/// Memory of a connection: those bytes, buffers of frames, and tables of header fields.
const MEMORY: usize = WINDOW as usize + (64 << 10);

/// Returns connections of data planes as they come, as many as `limits` allow. The memory of each is charged to its
/// address.
pub(super) fn accept(
    listener: TcpListener,
    limits: &Limits,
    timeouts: &Timeouts,
    memory: &Memory,
) -> impl Stream<Item = io::Result<Connection>> + use<> {
    let clients = Clients::new(limits.connections, limits.connections_per_client);
    let (heads, begin) = (memory.heads.clone(), timeouts.head());
    TcpListenerStream::new(listener).filter_map(move |accepted| {
        let opened = accepted.map(|stream| {
            let address = stream.peer_addr().ok()?.ip();
            let place = clients.enter(address);
            let charge = heads.charge(client(address), MEMORY).ok();
            let Some((place, charge)) = place.zip(charge) else {
                // Closed at once: others' connections stay.
                tracing::debug!(%address, "too many connections of data planes");
                return None;
            };
            drop(stream.set_nodelay(true));
            Some(Connection::new(stream, begin, (place, charge)))
        });
        std::future::ready(opened.transpose())
    })
}

/// A connection with its place, which ends if it does not begin in time.
pub(super) struct Connection {
    stream: TcpStream,
    /// Number of bytes that must come before the time is over.
    missing: usize,
    late: Pin<Box<Sleep>>,
    _held: (Place, Charge<IpAddr>),
}

impl Connection {
    fn new(stream: TcpStream, begin: Duration, held: (Place, Charge<IpAddr>)) -> Self {
        Self {
            stream,
            missing: BEGIN,
            late: Box::pin(sleep(begin)),
            _held: held,
        }
    }
}

impl Connected for Connection {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        self.stream.connect_info()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.missing > 0 && self.late.as_mut().poll(cx).is_ready() {
            let problem = "no request by HTTP/2 within timeouts.head";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, problem)));
        }
        let before = buffer.filled().len();
        let read = pin!(&mut self.stream).poll_read(cx, buffer);
        let read_bytes = buffer.filled().len().saturating_sub(before);
        self.missing = self.missing.saturating_sub(read_bytes);
        read
    }
}

impl AsyncWrite for Connection {
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
