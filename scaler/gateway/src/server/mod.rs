//! Connections of clients: HTTP/1 and HTTP/2 without TLS, within limits.

mod clients;
mod threads;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt as _;
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response, Version};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::client_address::ClientAddress;
use crate::config::{Limits, Timeouts};
use crate::proxy::{Proxy, ResponseBody};

use clients::Clients;
pub(crate) use threads::serve_on_threads;

/// Pause after a failure to accept a connection: the process may be short of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Time for the first requests of connections that were accepted last.
const SETTLE: Duration = Duration::from_millis(200);
/// Interval in which the gateway looks whether an HTTP/2 client is still there.
const PING: Duration = Duration::from_secs(30);

/// Parts that all threads of the server share.
#[derive(Clone, Debug)]
pub(crate) struct Serving {
    proxy: Proxy,
    limits: Limits,
    timeouts: Timeouts,
    clients: Clients,
}

impl Serving {
    pub(crate) fn new(proxy: Proxy, limits: Limits, timeouts: Timeouts) -> Self {
        Self {
            proxy,
            limits,
            timeouts,
            clients: Clients::new(limits.connections, limits.connections_per_client),
        }
    }
}

/// Serves the proxy until `stop` completes. For [`Timeouts::farewell`] after that, it still takes
/// connections and requests, and ends each HTTP/1 connection with its response: who balances the load
/// may not know yet, and a client must not meet the end of an idle connection with a request. Then it
/// lets clients end their requests within [`Timeouts::stop`].
pub(crate) async fn serve(listener: TcpListener, service: Serving, stop: impl Future<Output = ()>) {
    let Serving {
        proxy,
        limits,
        timeouts,
        clients,
    } = service;
    let leaving = Arc::new(AtomicBool::new(false));
    let service = Service {
        proxy,
        leaving: Arc::clone(&leaving),
    };
    let mut server = Server {
        service,
        builder: builder(limits, timeouts),
        clients,
        head: timeouts.head(),
        graceful: GracefulShutdown::new(),
        tasks: JoinSet::new(),
    };
    let until = async {
        stop.await;
        leaving.store(true, Ordering::Relaxed);
        tokio::time::sleep(timeouts.farewell()).await;
    };
    tokio::select! {
        () = until => {}
        () = server.accept(&listener) => {}
    }
    // Connections that the kernel has accepted already.
    while let Some(Ok((stream, address))) = listener.accept().now_or_never() {
        server.open(stream, address);
    }
    drop(listener);
    // Their first request may be on its way.
    tokio::time::sleep(SETTLE).await;
    let stopped = tokio::time::timeout(timeouts.stop(), server.graceful.shutdown());
    if stopped.await.is_err() {
        tracing::warn!("some requests had not ended when the gateway stopped");
    }
}

/// Parts that answer requests.
#[derive(Clone, Debug)]
struct Service {
    proxy: Proxy,
    leaving: Arc<AtomicBool>,
}

impl Service {
    async fn answer(
        self,
        client: ClientAddress,
        request: Request<Incoming>,
    ) -> Result<Response<ResponseBody>, Infallible> {
        let is_http2 = request.version() == Version::HTTP_2;
        let mut response = self.proxy.answer(client, request).await;
        if self.leaving.load(Ordering::Relaxed) && !is_http2 {
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(CONNECTION, close);
        }
        Ok(response)
    }
}

/// Open connections.
struct Server {
    service: Service,
    builder: Builder<TokioExecutor>,
    clients: Clients,
    /// Longest time without a first request.
    head: Duration,
    graceful: GracefulShutdown,
    /// Dropped at the end, which ends the connections that are left.
    tasks: JoinSet<()>,
}

impl Server {
    /// Accepts connections, for ever.
    async fn accept(&mut self, listener: &TcpListener) {
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                Some(_) = self.tasks.join_next() => continue,
            };
            match accepted {
                Ok((stream, address)) => self.open(stream, address),
                Err(error) => {
                    tracing::warn!("cannot accept a connection: {error}");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn open(&mut self, stream: TcpStream, address: SocketAddr) {
        let Some(place) = self.clients.enter(address.ip()) else {
            // Closed at once: others' connections stay.
            tracing::debug!(client = %address.ip(), "too many connections");
            return;
        };
        let (service, watcher) = (self.service.clone(), self.graceful.watcher());
        // hyper's timeout begins once the protocol is known.
        let spoke = Arc::new(AtomicBool::new(false));
        let silent = silent(Arc::clone(&spoke), self.head);
        let client = ClientAddress(address);
        let service = service_fn(move |request| {
            spoke.store(true, Ordering::Relaxed);
            service.clone().answer(client, request)
        });
        let connection = self.builder.serve_connection(io(stream), service);
        let connection = connection.into_owned();
        self.tasks.spawn(async move {
            let _place = place;
            tokio::select! {
                ended = watcher.watch(connection) => if let Err(error) = ended {
                    tracing::debug!(client = %address, "connection: {error}");
                },
                () = silent => tracing::debug!(client = %address, "connection without a request"),
            }
        });
    }
}

/// Completes if nothing was asked within `time`.
async fn silent(spoke: Arc<AtomicBool>, time: Duration) {
    tokio::time::sleep(time).await;
    if spoke.load(Ordering::Relaxed) {
        std::future::pending::<()>().await;
    }
}

fn io(stream: TcpStream) -> TokioIo<TcpStream> {
    // Answers are written whole; a failure costs a delay at most.
    drop(stream.set_nodelay(true));
    TokioIo::new(stream)
}

fn builder(limits: Limits, timeouts: Timeouts) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(timeouts.head())
        .max_buf_size(limits.head_bytes);
    builder
        .http2()
        .timer(TokioTimer::new())
        .adaptive_window(true)
        .max_concurrent_streams(limits.streams)
        .max_header_list_size(u32::try_from(limits.head_bytes).unwrap_or(u32::MAX))
        .keep_alive_interval(PING)
        .keep_alive_timeout(timeouts.head());
    builder
}
