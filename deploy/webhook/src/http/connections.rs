//! Connections, over TLS or not, within limits.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::Limits;
use super::seats::Seats;
use crate::metrics::Metrics;

/// Before the next try when no connection can be accepted: descriptors may be short.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What each connection needs.
#[derive(Clone)]
struct Server {
    router: Router,
    tls: Option<(TlsAcceptor, Arc<Metrics>)>,
    limits: Limits,
}

/// Serves `router` until `stop` is done; over TLS when there is an acceptor, whose handshakes are counted.
///
/// Then answers what was asked already, for at most [`Limits::stop`].
pub async fn serve(
    listener: TcpListener,
    tls: Option<(TlsAcceptor, Arc<Metrics>)>,
    router: Router,
    limits: Limits,
    stop: impl Future<Output = ()>,
) {
    let server = Server {
        router,
        tls,
        limits,
    };
    let graceful = GracefulShutdown::new();
    // Dropped at the end, which ends what is left.
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

async fn accept(
    listener: TcpListener,
    server: &Server,
    graceful: &GracefulShutdown,
    tasks: &mut JoinSet<()>,
) {
    let permits = Arc::new(Semaphore::new(server.limits.connections));
    let seats = Seats::new(server.limits.per_address);
    // Nobody closes the semaphore.
    while let Ok(permit) = Arc::clone(&permits).acquire_owned().await {
        while tasks.try_join_next().is_some() {}
        let (stream, address) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!("cannot accept a connection: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Some(seat) = seats.take(address.ip()) else {
            tracing::debug!(%address, "too many connections of one address");
            continue;
        };
        let (server, watcher) = (server.clone(), graceful.watcher());
        tasks.spawn(async move {
            server.connection(stream, watcher).await;
            drop((permit, seat));
        });
    }
}

impl Server {
    async fn connection(&self, stream: TcpStream, watcher: Watcher) {
        let Some((acceptor, metrics)) = &self.tls else {
            return self.requests(stream, watcher).await;
        };
        let handshake = tokio::time::timeout(self.limits.handshake, acceptor.accept(stream)).await;
        metrics.handshake(matches!(handshake, Ok(Ok(_))));
        match handshake {
            Ok(Ok(stream)) => self.requests(stream, watcher).await,
            Ok(Err(error)) => tracing::debug!("handshake: {error}"),
            Err(_) => tracing::debug!("handshake: the client was too slow"),
        }
    }

    async fn requests(
        &self,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        watcher: Watcher,
    ) {
        let service = TowerToHyperService::new(self.router.clone());
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.idle)
            .serve_connection(TokioIo::new(stream), service);
        if let Err(error) = watcher.watch(connection).await {
            tracing::debug!("connection: {error}");
        }
    }
}
