//! The server: connections within limits, and a graceful end.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::address_limit::AddressLimit;
use super::transport::Transport;

/// Pause after a failure to accept a connection: the process may be short of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Limits on connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Maximum number of open connections. More wait in the listener's backlog.
    pub connections: usize,
    /// Maximum number of open connections of one address. More are closed at once, so that no
    /// client keeps the others out.
    pub per_address: usize,
    /// Longest time that a connection may wait for the head of a request.
    pub head: Duration,
    /// Longest time for clients to read their answers once the server stops.
    pub stop: Duration,
}

impl Default for ConnectionLimits {
    /// Limits for a few clients of each daemon: Prometheus, kubelet, scheduler.
    fn default() -> Self {
        Self {
            connections: 256,
            per_address: 64,
            head: Duration::from_mins(2),
            stop: Duration::from_secs(5),
        }
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

async fn accept(
    listener: TcpListener,
    server: &Server<impl Transport>,
    graceful: &GracefulShutdown,
    tasks: &mut JoinSet<()>,
) {
    let permits = Arc::new(Semaphore::new(server.limits.connections));
    let addresses = AddressLimit::new(server.limits.per_address);
    // Nobody closes the semaphore.
    while let Ok(permit) = Arc::clone(&permits).acquire_owned().await {
        while tasks.try_join_next().is_some() {}
        let (connection, address) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!("cannot accept a connection: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Some(address_permit) = addresses.permit(address.ip()) else {
            let limit = server.limits.per_address;
            tracing::debug!(%address, limit, "too many connections of one address");
            continue;
        };
        let (server, watcher) = (server.clone(), graceful.watcher());
        tasks.spawn(async move {
            server.connection(connection, watcher).await;
            drop((permit, address_permit));
        });
    }
}

impl<T: Transport> Server<T> {
    async fn connection(&self, connection: TcpStream, watcher: Watcher) {
        let Some(stream) = self.transport.open(connection).await else {
            return;
        };
        let service = TowerToHyperService::new(self.router.clone());
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.head)
            .serve_connection(TokioIo::new(stream), service);
        if let Err(error) = watcher.watch(connection).await {
            tracing::debug!("connection: {error}");
        }
    }
}
