//! Connections of clients: HTTP/1 and HTTP/2, with or without TLS, within limits.

mod activity;
mod client_stream;
mod connection;
mod descriptors;
mod head;
mod ledger;
mod streams;
mod threads;
mod tls;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt as _;
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderValue};
use hyper::{Request, Response, Version};
use rustix::net::sockopt::set_tcp_user_timeout;
use tetris_service_kit::clients::Clients;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::client_address::ClientAddress;
use crate::config::{Limits, Timeouts};
use crate::proxy::{Proxy, ResponseBody};

pub(crate) use activity::{Activity, CountedBody};
pub(crate) use client_stream::ClientStream;
use connection::{Connection, Protocols};
use descriptors::make_room;
pub(crate) use head::{too_many_fields, too_much_memory};
pub(crate) use ledger::{Held, Ledger};
pub(crate) use streams::{StreamProgress, StreamTasks};
pub(crate) use threads::serve_on_threads;
pub use tls::CertificateError;
pub(crate) use tls::{Certificate, Tls};

/// Pause after a failure to accept a connection: the process may be short of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Time for the first requests of connections that were accepted last.
const SETTLE: Duration = Duration::from_millis(200);

/// Parts that all threads of the server share.
#[derive(Clone, Debug)]
pub(crate) struct Serving {
    proxy: Proxy,
    limits: Limits,
    timeouts: Timeouts,
    clients: Clients,
    tls: Option<Tls>,
}

impl Serving {
    pub(crate) fn new(proxy: Proxy, limits: Limits, timeouts: Timeouts, tls: Option<Tls>) -> Self {
        let limits = make_room(limits);
        Self {
            proxy,
            limits,
            timeouts,
            clients: Clients::new(limits.connections, limits.connections_per_client),
            tls,
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
        tls,
    } = service;
    let leaving = Arc::new(AtomicBool::new(false));
    let service = Service {
        proxy,
        leaving: Arc::clone(&leaving),
    };
    let mut server = Server {
        service,
        protocols: Arc::new(Protocols::new(limits, timeouts)),
        clients,
        tls,
        reading: timeouts.read(),
        stop: watch::Sender::new(()),
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
    let stopped = tokio::time::timeout(timeouts.stop(), server.stop());
    if stopped.await.is_err() {
        tracing::warn!("some requests had not ended when the gateway stopped");
    }
}

/// A request with the memory of its head, or the answer to one that is refused by its head.
type Admitted = Result<(Box<Request<Incoming>>, Held), Box<Response<ResponseBody>>>;

/// Parts that answer requests.
#[derive(Clone, Debug)]
struct Service {
    proxy: Proxy,
    leaving: Arc<AtomicBool>,
}

impl Service {
    /// Answers a request that was admitted, or refused with a response.
    async fn answer(self, client: ClientAddress, admitted: Admitted) -> Response<ResponseBody> {
        let (request, _held) = match admitted {
            Ok(admitted) => admitted,
            Err(response) => return *response,
        };
        let is_http2 = request.version() == Version::HTTP_2;
        let mut response = self.proxy.answer(client, request).await;
        if self.leaving.load(Ordering::Relaxed) && !is_http2 {
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(CONNECTION, close);
        }
        response
    }
}

/// Open connections.
struct Server {
    service: Service,
    protocols: Arc<Protocols>,
    clients: Clients,
    tls: Option<Tls>,
    /// Longest time for which a client may read nothing.
    reading: Duration,
    /// Tells all connections to end once they have no request.
    stop: watch::Sender<()>,
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
        // Answers are written whole; a failure costs a delay at most.
        drop(stream.set_nodelay(true));
        // Then the kernel keeps no output of a closed connection for a client that does not read either.
        let unread = u32::try_from(self.reading.as_millis()).unwrap_or(u32::MAX);
        let _as_before = set_tcp_user_timeout(&stream, unread);
        let connection = Connection {
            service: self.service.clone(),
            protocols: Arc::clone(&self.protocols),
            clients: self.clients.clone(),
            client: ClientAddress(address),
            stop: self.stop.subscribe(),
        };
        let tls = self.tls.clone();
        self.tasks.spawn(async move {
            let _place = place;
            match tls {
                Some(tls) => connection.serve_tls(stream, &tls).await,
                None => connection.serve(stream).await,
            }
        });
    }

    /// Ends all connections, each after its requests.
    async fn stop(&mut self) {
        self.stop.send_replace(());
        while self.tasks.join_next().await.is_some() {}
    }
}
