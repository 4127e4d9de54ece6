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
use hyper::client::conn::{TrySendError, http1, http2};
use hyper::{Request, Response};

use tokio::runtime::Handle;

pub use error::{ConnectError, SendError};
use idle::Idle;

/// Number of threads with idle their own connections; more threads share them.
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
        mut request: Box<Request<RequestBody>>,
    ) -> Result<(Response<Incoming>, Lent), SendError> {
        // Futures that few requests need are on the heap: within this one, their memory would be copied for each
        // request.
        if request.version() == hyper::Version::HTTP_2 {
            let response = Box::pin(self.send_http2(request)).await?;
            return Ok((response, None));
        }
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
        let connected = Box::pin(limited(connect::http1(self.address))).await;
        let mut connection = match connected {
            Ok(connection) => connection,
            Err(problem) => return Err(SendError::NotSent { request, problem }),
        };
        match connection.try_send_request(*request).await {
            Ok(response) => Ok((response, Some(connection))),
            Err(error) => Err(failed(error)),
        }
    }

    async fn send_http2(
        &self,
        request: Box<Request<RequestBody>>,
    ) -> Result<Response<Incoming>, SendError> {
        match self.http2_connection().await {
            Ok(mut connection) => connection.try_send_request(*request).await.map_err(failed),
            Err(problem) => Err(SendError::NotSent { request, problem }),
        }
    }

    /// The HTTP/2 connection, once it takes a request.
    async fn http2_connection(&self) -> Result<http2::SendRequest<RequestBody>, ConnectError> {
        let mut connection = {
            let mut known = self.http2.lock().await;
            match known.as_ref().filter(|entry| !entry.is_closed()) {
                Some(open) => open.clone(),
                None => known
                    .insert(limited(connect::http2(self.address, self.runtime.as_ref())).await?)
                    .clone(),
            }
        };
        connection.ready().await?;
        Ok(connection)
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

    fn lock(&self) -> MutexGuard<'_, Idle<http1::SendRequest<RequestBody>>> {
        let [first, rest @ ..] = &self.idle;
        let this_thread = THREAD.get() % THREADS;
        let of_thread = this_thread
            .checked_sub(1)
            .and_then(|at| rest.get(at))
            .unwrap_or(first);
        of_thread.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn limited<T>(
    connecting: impl Future<Output = Result<T, ConnectError>>,
) -> Result<T, ConnectError> {
    let connected = tokio::time::timeout(CONNECT, connecting).await;
    connected.unwrap_or(Err(ConnectError::TimedOut(CONNECT)))
}

/// The error of a request on a new connection.
fn failed(mut error: TrySendError<Request<RequestBody>>) -> SendError {
    match error.take_message() {
        Some(request) => SendError::NotSent {
            request: Box::new(request),
            problem: error.into_error().into(),
        },
        None => SendError::Broken(error.into_error()),
    }
}
