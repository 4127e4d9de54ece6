//! Connections of clients: HTTP/1 and HTTP/2, with or without TLS, within limits.

mod activity;
mod client_stream;
mod connection;
mod descriptors;
mod head;
mod ledger;
mod open_connections;
mod streams;
mod threads;
mod tls;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::Either;
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderValue};
use hyper::{Request, Response, Version};
use tetris_service_kit::clients::Clients;
use tokio::net::TcpListener;

use crate::client_address::ClientAddress;
use crate::config::{Limits, Timeouts};
use crate::proxy::{Proxy, ResponseBody};

pub(crate) use activity::{Activity, CountedBody};
pub(crate) use client_stream::ClientStream;
use connection::{Connection, Protocols};
use descriptors::make_room;
pub(crate) use head::{too_many_fields, too_much_memory};
pub(crate) use ledger::{Held, Ledger};
pub(crate) use open_connections::OpenConnections;
pub(crate) use streams::{StreamProgress, StreamTasks};
pub(crate) use threads::serve_on_threads;
pub use tls::CertificateError;
pub(crate) use tls::{Certificate, Tls};

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
    let protocols = Arc::new(Protocols::new(limits, timeouts));
    let (places, reading) = (clients.clone(), timeouts.read());
    let mut connections = OpenConnections::new(places, reading, move |stream, client, stop| {
        let connection = Connection {
            service: service.clone(),
            protocols: Arc::clone(&protocols),
            clients: clients.clone(),
            client,
            stop,
        };
        match tls.clone() {
            // On the heap, so that a plain connection has no room for it.
            Some(tls) => Either::Left(Box::pin(async move {
                connection.serve_tls(stream, &tls).await;
            })),
            None => Either::Right(connection.serve(stream)),
        }
    });
    let until = async {
        stop.await;
        leaving.store(true, Ordering::Relaxed);
        tokio::time::sleep(timeouts.farewell()).await;
    };
    connections.accept_until(listener, until).await;
    // Their first request may be on its way.
    tokio::time::sleep(SETTLE).await;
    if !connections.end(timeouts.stop()).await {
        tracing::warn!("some requests had not ended when the gateway stopped");
    }
}

/// A request with the memory of its head, or the answer to one refused by its head.
type Admitted = Result<(Box<Request<Incoming>>, Held), Box<Response<ResponseBody>>>;

/// Parts that answer requests.
#[derive(Clone, Debug)]
struct Service {
    proxy: Proxy,
    leaving: Arc<AtomicBool>,
}

impl Service {
    /// Answers an admitted request, or refused with a response.
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
