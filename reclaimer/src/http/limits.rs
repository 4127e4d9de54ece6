//! Bounds against clients that are many, slow or hostile.
//!
//! A connection is for one request. It has [`Limits::request`] to send all of it, and [`Limits::answer`] to take the answer;
//! then it is cut, wherever it is. Both count from one event, so trickling bytes gains nothing. hyper bounds the
//! head of a request by itself (400 KiB, 100 fields), and no page reads a body.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep};

/// How much of the daemon HTTP clients can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Connections at once. More wait in the listener's backlog.
    pub connections: usize,
    /// Connections at once of one address. More are closed at once, so that no single client keeps the kubelet out.
    pub per_address: usize,
    /// How long a request may take to arrive, from the connection on.
    pub request: Duration,
    /// How long its answer may take to be read, from its first byte on.
    pub answer: Duration,
    /// How long answers may take to be read when the server stops.
    pub stop: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 256,
            per_address: 32,
            request: Duration::from_secs(5),
            answer: Duration::from_secs(30),
            stop: Duration::from_secs(5),
        }
    }
}

/// A listener within limits.
pub(super) struct Limited {
    listener: TcpListener,
    limits: Limits,
    permits: Arc<Semaphore>,
    addresses: Addresses,
}

impl Limited {
    pub(super) fn new(listener: TcpListener, limits: Limits) -> Self {
        Self {
            listener,
            limits,
            permits: Arc::new(Semaphore::new(limits.connections)),
            addresses: Addresses::default(),
        }
    }
}

impl Listener for Limited {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        loop {
            let Ok(permit) = Arc::clone(&self.permits).acquire_owned().await else {
                // Nobody closes the semaphore.
                return std::future::pending().await;
            };
            // axum's own `accept` logs errors and waits a second when descriptors are short.
            let (stream, address) = Listener::accept(&mut self.listener).await;
            if let Some(seat) = self.addresses.seat(address.ip(), self.limits.per_address) {
                let connection = Connection {
                    stream,
                    deadline: Box::pin(sleep(self.limits.request)),
                    answer: Some(self.limits.answer),
                    _permit: permit,
                    _seat: seat,
                };
                return (connection, address);
            }
            tracing::debug!(%address, limit = self.limits.per_address, "too many connections of one address");
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// Connections of each address.
#[derive(Default, Clone)]
struct Addresses(Arc<Mutex<HashMap<IpAddr, usize>>>);

impl Addresses {
    fn seat(&self, address: IpAddr, limit: usize) -> Option<Seat> {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = taken.entry(address).or_default();
        if *count >= limit {
            return None;
        }
        *count += 1;
        Some(Seat {
            addresses: self.clone(),
            address,
        })
    }
}

/// One connection's place among those of its address.
struct Seat {
    addresses: Addresses,
    address: IpAddr,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self
            .addresses
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = taken.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.address);
            }
        }
    }
}

/// A connection that ends at its deadline.
pub(super) struct Connection {
    stream: TcpStream,
    deadline: Pin<Box<Sleep>>,
    /// How long the answer may take; none once it has begun.
    answer: Option<Duration>,
    _permit: OwnedSemaphorePermit,
    _seat: Seat,
}

impl Connection {
    /// The stream, before the deadline. Wakes the task when it passes.
    fn stream(&mut self, cx: &mut Context<'_>) -> io::Result<Pin<&mut TcpStream>> {
        if self.deadline.as_mut().poll(cx).is_ready() {
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "the client was too slow",
            ));
        }
        Ok(Pin::new(&mut self.stream))
    }

    /// The same, to write to. The first write begins the answer.
    fn answering(&mut self, cx: &mut Context<'_>) -> io::Result<Pin<&mut TcpStream>> {
        if let Some(answer) = self.answer.take() {
            self.deadline.as_mut().reset(Instant::now() + answer);
        }
        self.stream(cx)
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.stream(cx)?.poll_read(cx, buf)
    }
}

impl AsyncWrite for Connection {
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
