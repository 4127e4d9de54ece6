//! Bounds against clients that are many, slow or hostile.

use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::header::CONNECTION;
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::Response;

use super::{Shared, text};

/// How much of the webhook clients can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Connections at once. More wait in the listener's backlog.
    pub connections: usize,
    /// Connections at once of one address. More are closed at once, so that no pod keeps the API server out.
    pub per_address: usize,
    /// The longest request: an API server takes objects of at most 3 MiB.
    pub body_bytes: usize,
    /// How long a handshake may take.
    pub handshake: Duration,
    /// How long a request may take to arrive after its head, and to be answered.
    pub request: Duration,
    /// How long a connection may wait for a request's head. Longer than the 90 s after which API servers end connections
    /// that they do not use: a request that meets a closed connection would be lost.
    pub idle: Duration,
    /// How long requests are served after the order to stop, while the API server is told to come here no more.
    pub farewell: Duration,
    /// How long answers may take to be read after that.
    pub stop: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 512,
            per_address: 128,
            body_bytes: 4 * 1024 * 1024,
            handshake: Duration::from_secs(10),
            request: Duration::from_secs(10),
            idle: Duration::from_mins(2),
            farewell: Duration::from_secs(5),
            stop: Duration::from_secs(5),
        }
    }
}

/// Ends requests that take too long.
pub(super) async fn bound(State(limits): State<Limits>, request: Request, next: Next) -> Response {
    let answered = tokio::time::timeout(limits.request, next.run(request)).await;
    answered.unwrap_or_else(|_| {
        let seconds = limits.request.as_secs();
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
