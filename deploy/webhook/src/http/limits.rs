//! Bounds against clients that are many, slow or hostile.

use std::sync::Arc;
use std::time::Duration;

use axum::body::HttpBody as _;
use axum::extract::{Request, State};
use axum::http::header::CONNECTION;
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use tetris_service_kit::http::{ConnectionLimits, text};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::Shared;

/// Bodies up to this size are read at once, whatever their number: those of 512 connections come to 32 MiB. Pods have
/// some 10 KiB.
const SMALL_BYTES: u64 = 64 * 1024;

/// Limits on the webhook's clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Connections at once. A newcomer displaces the oldest one of the address that has the most.
    pub connections: usize,
    /// Connections at once of one address, of which a newcomer displaces the oldest one. More than the 200 writes that an
    /// API server carries out at once.
    pub per_address: usize,
    /// The longest request: an API server takes objects of at most 3 MiB.
    pub body_bytes: usize,
    /// Maximum number of requests of more than 64 KiB, or of unknown size, that are read at once. More wait.
    pub large_bodies: usize,
    /// Longest time for a handshake.
    pub handshake: Duration,
    /// Longest time for a request to arrive after its head, and to be answered.
    pub request: Duration,
    /// Longest time that a connection may wait for a request's head. Longer than the 90 s after which API servers end connections
    /// that they do not use: a request that meets a closed connection would be lost.
    pub idle: Duration,
    /// Time for which requests are served after the order to stop, while the API server removes the endpoint.
    pub farewell: Duration,
    /// Longest time for answers to be read after that.
    pub stop: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 512,
            per_address: 256,
            body_bytes: 4 * 1024 * 1024,
            large_bodies: 4,
            handshake: Duration::from_secs(10),
            request: Duration::from_secs(10),
            idle: Duration::from_mins(2),
            farewell: Duration::from_secs(5),
            stop: Duration::from_secs(5),
        }
    }
}

impl Limits {
    /// Limits on connections.
    pub fn connections(&self) -> ConnectionLimits {
        ConnectionLimits {
            connections: self.connections,
            per_address: self.per_address,
            head: self.idle,
            pace: ConnectionLimits::PACE,
            stop: self.stop,
        }
    }
}

/// Bounds of requests, shared by all connections.
#[derive(Debug, Clone)]
pub(super) struct Bounds {
    request: Duration,
    large: Arc<Semaphore>,
    turn: ReviewTurn,
}

/// The turn of a large request to be reviewed: its JSON may take 25 times its bytes. Among the extensions of large requests.
#[derive(Debug, Clone)]
pub(super) struct ReviewTurn(Arc<Semaphore>);

impl ReviewTurn {
    /// Waits for the turn, which lasts until the result is dropped.
    pub(super) async fn wait(&self) -> Option<SemaphorePermit<'_>> {
        // No one closes the semaphore.
        self.0.acquire().await.ok()
    }
}

impl Bounds {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            request: limits.request,
            large: Arc::new(Semaphore::new(limits.large_bodies)),
            turn: ReviewTurn(Arc::new(Semaphore::new(1))),
        }
    }
}

/// Lets large requests wait for each other, and ends those that take too long.
pub(super) async fn bound(
    State(bounds): State<Bounds>,
    mut request: Request,
    next: Next,
) -> Response {
    let size = request.body().size_hint().upper();
    let is_large = size.is_none_or(|bytes| bytes > SMALL_BYTES);
    let answered = tokio::time::timeout(bounds.request, async {
        let _permit = if is_large {
            request.extensions_mut().insert(bounds.turn.clone());
            // No one closes the semaphore.
            bounds.large.acquire().await.ok()
        } else {
            None
        };
        next.run(request).await
    });
    answered.await.unwrap_or_else(|_| {
        let seconds = bounds.request.as_secs_f64();
        let reason = format!("the request did not arrive within {seconds} s; send it faster");
        text(StatusCode::REQUEST_TIMEOUT, reason)
    })
}

/// Ends connections with their next answer when the server is about to stop, so that no request meets a closed one.
pub(super) async fn close_when_stopping(
    State(shared): State<Shared>,
    request: Request,
    next: Next,
) -> Response {
    let mut response = next.run(request).await;
    if shared.readiness.is_stopping() {
        let close = HeaderValue::from_static("close");
        response.headers_mut().insert(CONNECTION, close);
    }
    response
}
