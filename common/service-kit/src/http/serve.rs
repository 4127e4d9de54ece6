//! The server: connections within limits, and a graceful end.

use std::fmt::Display;
use std::hash::Hash;
use std::io;
use std::net::IpAddr;
use std::time::Duration;

use axum::Router;
use axum::http::{Extensions, Request};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::open_connections::OpenConnections;
use super::paced::{PacedBody, PacedWrites};
use super::transport::Transport;
use crate::pace::Pace;

/// Pause after a failure to accept a connection: the process may be short of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Largest buffer of a connection in bytes, and so the longest head of a request. A buffer stays as large as it was needed.
const BUFFER: usize = 32 << 10;

/// Limits on connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Maximum number of open connections. A newcomer displaces the oldest one of the address that
    /// has the most, so that no number of idle connections keeps it out.
    pub connections: usize,
    /// Maximum number of open connections of one address, or of one user of a Unix socket. A
    /// newcomer displaces its oldest one.
    pub per_address: usize,
    /// Longest time that a connection may wait for the head of a request.
    pub head: Duration,
    /// Least rate at which a client sends a body and takes its answer, and the time that it may be behind.
    pub pace: Pace,
    /// Longest time for clients to read their answers once the server stops.
    pub stop: Duration,
}

impl ConnectionLimits {
    /// Pace for clients within a cluster, or a node.
    pub const PACE: Pace = Pace {
        grace: Duration::from_secs(30),
        bytes_per_second: 16 << 10,
    };
}

impl Default for ConnectionLimits {
    /// Limits for a few clients of each daemon: Prometheus, kubelet, scheduler.
    fn default() -> Self {
        Self {
            connections: 256,
            per_address: 64,
            head: Duration::from_mins(2),
            pace: Self::PACE,
            stop: Duration::from_secs(5),
        }
    }
}

/// Address of the client, among the extensions of each request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientAddress(pub IpAddr);

/// Source of connections.
pub(crate) trait Accept: Send {
    /// A connection.
    type Connection: Send + 'static;
    /// The client for the limits.
    type Client: Copy + Eq + Hash + Display + Send + 'static;

    /// Waits for the next connection.
    fn accept(
        &self,
    ) -> impl Future<Output = io::Result<Accepted<Self::Connection, Self::Client>>> + Send;
}

/// A connection that was accepted.
pub(crate) struct Accepted<C, A> {
    pub(crate) connection: C,
    pub(crate) client: A,
    /// Extensions of each of its requests.
    pub(crate) extensions: Extensions,
}

impl Accept for TcpListener {
    type Connection = TcpStream;
    type Client = IpAddr;

    async fn accept(&self) -> io::Result<Accepted<TcpStream, IpAddr>> {
        let (connection, address) = Self::accept(self).await?;
        let client = address.ip();
        let mut extensions = Extensions::new();
        extensions.insert(ClientAddress(client));
        Ok(Accepted {
            connection,
            client,
            extensions,
        })
    }
}

/// Makes the stream of requests from a connection.
pub(crate) trait Open<C>: Clone + Send + Sync + 'static {
    /// The stream.
    type Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static;

    /// Returns the stream, or none if the client failed at it.
    fn open(&self, connection: C) -> impl Future<Output = Option<Self::Stream>> + Send;
}

impl<T: Transport> Open<TcpStream> for T {
    type Stream = T::Stream;

    fn open(&self, connection: TcpStream) -> impl Future<Output = Option<T::Stream>> + Send {
        Transport::open(self, connection)
    }
}

/// Serves `router` until `stop` completes. Then answers the requests that have arrived, for at most
/// [`ConnectionLimits::stop`].
pub async fn serve(
    listener: TcpListener,
    transport: impl Transport,
    router: Router,
    limits: ConnectionLimits,
    stop: impl Future<Output = ()>,
) {
    serve_on(&listener, transport, router, limits, stop).await;
}

/// [`serve`] on any source of connections.
pub(crate) async fn serve_on<L: Accept>(
    listener: &L,
    transport: impl Open<L::Connection>,
    router: Router,
    limits: ConnectionLimits,
    stop: impl Future<Output = ()>,
) {
    let server = Server {
        router,
        transport,
        limits,
    };
    let graceful = GracefulShutdown::new();
    // Dropped at the end, which ends the connections that are left.
    let mut tasks = JoinSet::new();
    tokio::select! {
        () = stop => {}
        () = accept(listener, &server, &graceful, &mut tasks) => {}
    }
    if tokio::time::timeout(limits.stop, graceful.shutdown())
        .await
        .is_err()
    {
        tracing::warn!("some clients had not read their answers when the server stopped");
    }
}

/// Parts that each connection needs.
#[derive(Clone)]
struct Server<T> {
    router: Router,
    transport: T,
    limits: ConnectionLimits,
}

async fn accept<L: Accept>(
    listener: &L,
    server: &Server<impl Open<L::Connection>>,
    graceful: &GracefulShutdown,
    tasks: &mut JoinSet<()>,
) {
    let mut open = OpenConnections::new(server.limits.connections, server.limits.per_address);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(ended) = tasks.join_next_with_id() => {
                open.ended(ended.map_or_else(|error| error.id(), |(task, ())| task));
                continue;
            }
        };
        let accepted = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!("cannot accept a connection: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let client = accepted.client;
        for displaced in open.make_place(client) {
            tracing::debug!(%client, %displaced, "a connection is closed to make place for a newcomer");
        }
        let (server, watcher) = (server.clone(), graceful.watcher());
        let task = tasks.spawn(async move {
            let (connection, extensions) = (accepted.connection, accepted.extensions);
            server.connection(connection, extensions, watcher).await;
        });
        open.opened(client, task);
    }
}

impl<T> Server<T> {
    async fn connection<C>(&self, connection: C, extensions: Extensions, watcher: Watcher)
    where
        T: Open<C>,
    {
        let Some(stream) = self.transport.open(connection).await else {
            return;
        };
        let router = TowerToHyperService::new(self.router.clone());
        let pace = self.limits.pace;
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().extend(extensions.clone());
            router.call(request.map(|body| PacedBody::new(body, pace)))
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.head)
            .max_buf_size(BUFFER)
            .serve_connection(TokioIo::new(PacedWrites::new(stream, pace)), service);
        if let Err(error) = watcher.watch(connection).await {
            tracing::debug!("connection: {error}");
        }
    }
}
