//! Connections to one instance: HTTP/1 connections that wait for a request, and one HTTP/2
//! connection for gRPC.
//!
//! Each thread keeps its own idle connections: their tasks run on it, and a request need not wake
//! another thread.
//!
//! hyper's own pooled client does not give a request back that it could not send. Here such a
//! request stays whole, and the caller sends it elsewhere.

mod connect;
mod error;
mod idle;

use std::cell::Cell;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::{Request, Response};

use tokio::runtime::Handle;

pub use error::SendError;
use idle::Idle;

/// Number of threads with idle connections of their own; more threads share them.
const THREADS: usize = 16;
/// Time in which an instance accepts a connection.
const CONNECT: Duration = Duration::from_secs(2);

thread_local! {
    /// Number of this thread among those that serve clients.
    static THREAD: Cell<usize> = const { Cell::new(0) };
}

/// Gives this thread its number among those that serve clients.
pub(crate) fn number_thread(number: usize) {
    THREAD.set(number);
}

/// A request's body: complete before anything is sent.
pub type RequestBody = Full<Bytes>;

/// Connections to one instance.
#[derive(Debug)]
pub struct Pool {
    address: SocketAddr,
    /// Idle connections of each thread.
    idle: [Mutex<Idle<http1::SendRequest<RequestBody>>>; THREADS],
    http2: tokio::sync::Mutex<Option<http2::SendRequest<RequestBody>>>,
    /// Runtime of the HTTP/2 connection, which all threads use.
    runtime: Option<Handle>,
}

/// A connection that a response still comes from. Dropped after the response's end, it waits for the
/// next request.
pub(crate) type Lent = Option<http1::SendRequest<RequestBody>>;

impl Pool {
    /// Creates a pool without connections.
    pub fn new(address: SocketAddr) -> Self {
        Self {
            address,
            idle: std::array::from_fn(|_| Mutex::default()),
            http2: tokio::sync::Mutex::new(None),
            runtime: Handle::try_current().ok(),
        }
    }

    /// Sends a request, by HTTP/2 if it has that version, and returns the head of the response with
    /// its connection.
    ///
    /// # Errors
    ///
    /// [`SendError::NotSent`] if nothing of it was sent, and then another instance can have it.
    pub(crate) async fn send(
        &self,
        request: Request<RequestBody>,
    ) -> Result<(Response<Incoming>, Lent), SendError> {
        if request.version() == hyper::Version::HTTP_2 {
            let response = self.send_http2(request).await?;
            return Ok((response, None));
        }
        let mut request = Box::new(request);
        // An idle connection may have been closed by the instance meanwhile.
        while let Some(mut connection) = self.take_idle().await {
            match connection.try_send_request(*request).await {
                Ok(response) => return Ok((response, Some(connection))),
                Err(mut error) => match error.take_message() {
                    Some(unsent) => *request = unsent,
                    None => return Err(SendError::Broken(error.into_error())),
                },
            }
        }
        let mut connection = self.limited(connect::http1(self.address)).await?;
        match connection.try_send_request(*request).await {
            Ok(response) => Ok((response, Some(connection))),
            Err(mut error) => Err(match error.take_message() {
                Some(_) => SendError::NotSent(error.into_error().to_string()),
                None => SendError::Broken(error.into_error()),
            }),
        }
    }

    async fn send_http2(
        &self,
        request: Request<RequestBody>,
    ) -> Result<Response<Incoming>, SendError> {
        let mut connection = {
            let mut known = self.http2.lock().await;
            match known.as_ref().filter(|one| !one.is_closed()) {
                Some(open) => open.clone(),
                None => known
                    .insert(
                        self.limited(connect::http2(self.address, self.runtime.as_ref()))
                            .await?,
                    )
                    .clone(),
            }
        };
        if let Err(error) = connection.ready().await {
            return Err(SendError::NotSent(error.to_string()));
        }
        connection
            .try_send_request(request)
            .await
            .map_err(|mut error| match error.take_message() {
                Some(_) => SendError::NotSent(error.into_error().to_string()),
                None => SendError::Broken(error.into_error()),
            })
    }

    /// Takes a connection back whose response has ended.
    pub(crate) fn give_back(&self, connection: http1::SendRequest<RequestBody>) {
        if !connection.is_closed() {
            self.lock().keep(Instant::now(), connection);
        }
    }

    /// An idle connection that is open.
    async fn take_idle(&self) -> Option<http1::SendRequest<RequestBody>> {
        loop {
            let mut idle = self.lock().take(Instant::now())?;
            // It ends its last response in a moment, if it has not yet.
            if idle.ready().await.is_ok() {
                return Some(idle);
            }
        }
    }

    async fn limited<T>(
        &self,
        connecting: impl Future<Output = Result<T, String>>,
    ) -> Result<T, SendError> {
        let connected = tokio::time::timeout(CONNECT, connecting).await;
        let connected =
            connected.unwrap_or_else(|_| Err(format!("no connection within {CONNECT:?}")));
        connected.map_err(SendError::NotSent)
    }

    fn lock(&self) -> MutexGuard<'_, Idle<http1::SendRequest<RequestBody>>> {
        let [first, rest @ ..] = &self.idle;
        let own = THREAD.get() % THREADS;
        let of_thread = own
            .checked_sub(1)
            .and_then(|at| rest.get(at))
            .unwrap_or(first);
        of_thread.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
