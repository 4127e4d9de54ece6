//! HTTP server of the extender.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde::Serialize;
use tetris_scaler_core::Spread;
use tokio::sync::{Semaphore, watch};

use super::filter::filter;
use super::nodes::Form;
use super::prioritize::prioritize;
use super::wanted::wanted;
use super::wire::{ExtenderArgs, ExtenderFilterResult, Pod};
use crate::state::{FunctionState, Snapshot};

/// Limits on the size, number and time of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExtenderLimits {
    /// Maximum size of a request, in bytes. 10,000 names are 0.4 MB; a full node is 5 to 20 kB.
    pub body_bytes: usize,
    /// Maximum number of concurrent requests. A scheduler sends one after the other.
    pub requests: usize,
    /// Timeout for the arrival of a request.
    pub arrival: Duration,
}

impl Default for ExtenderLimits {
    fn default() -> Self {
        Self {
            body_bytes: 64 << 20,
            requests: 8,
            arrival: Duration::from_secs(10),
        }
    }
}

/// Returns the router of `POST /filter` and `POST /prioritize`.
pub fn router(
    published: watch::Receiver<Arc<Snapshot>>,
    spread: Spread,
    limits: ExtenderLimits,
) -> Router {
    let shared = Shared {
        published,
        spread,
        limits,
        requests: Arc::new(Semaphore::new(limits.requests.min(Semaphore::MAX_PERMITS))),
    };
    Router::new()
        .route("/filter", post(filter_page))
        .route("/prioritize", post(prioritize_page))
        .with_state(Arc::new(shared))
}

struct Shared {
    published: watch::Receiver<Arc<Snapshot>>,
    spread: Spread,
    limits: ExtenderLimits,
    requests: Arc<Semaphore>,
}

/// Answers `/filter`. The scheduler shows the field `Error`; of an HTTP error it shows only the
/// status.
async fn filter_page(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let answer = shared.answer(request, |snapshot, wanted, nodes, _| {
        filter(snapshot, wanted, nodes)
    });
    match answer.await {
        Ok(result) => json(&result),
        Err((StatusCode::BAD_REQUEST, error)) => json(&ExtenderFilterResult {
            error,
            ..ExtenderFilterResult::default()
        }),
        Err((status, error)) => (status, error).into_response(),
    }
}

async fn prioritize_page(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let answer = shared.answer(request, |snapshot, wanted, nodes, spread| {
        prioritize(snapshot, wanted, spread, &nodes)
    });
    match answer.await {
        Ok(scores) => json(&scores),
        Err(fault) => fault.into_response(),
    }
}

type Fault = (StatusCode, String);

impl Shared {
    /// Reads the request and answers it on a blocking thread: full nodes take too long for an async
    /// one.
    async fn answer<T: Send + 'static>(
        self: &Arc<Self>,
        request: Request,
        answer: impl FnOnce(&Snapshot, Option<&FunctionState>, Form, Spread) -> T + Send + 'static,
    ) -> Result<T, Fault> {
        let permit = Arc::clone(&self.requests).try_acquire_owned();
        let permit = permit.map_err(|_| busy())?;
        let body = self.read(request.into_body()).await?;
        let shared = Arc::clone(self);
        let answered = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            let snapshot = shared.published.borrow().clone();
            let (pod, nodes) = parse(&body)?;
            let wanted = wanted(&snapshot, &pod).map(Arc::as_ref);
            Ok(answer(&snapshot, wanted, nodes, shared.spread))
        });
        match answered.await {
            Ok(answer) => answer.map_err(|error: String| (StatusCode::BAD_REQUEST, error)),
            Err(error) => Err((StatusCode::INTERNAL_SERVER_ERROR, error.to_string())),
        }
    }

    async fn read(&self, body: Body) -> Result<Bytes, Fault> {
        let reading = to_bytes(body, self.limits.body_bytes);
        match tokio::time::timeout(self.limits.arrival, reading).await {
            Ok(Ok(body)) => Ok(body),
            Ok(Err(error)) => Err((
                StatusCode::PAYLOAD_TOO_LARGE,
                format!(
                    "{error}; expected at most {} bytes; set nodeCacheCapable: true\n",
                    self.limits.body_bytes
                ),
            )),
            Err(_) => Err((
                StatusCode::REQUEST_TIMEOUT,
                "the request did not arrive in time; send it again\n".to_owned(),
            )),
        }
    }
}

fn parse(body: &[u8]) -> Result<(Pod, Form), String> {
    let args = serde_json::from_slice::<ExtenderArgs>(body);
    let mut args = args.map_err(|error| format!("ExtenderArgs: {error}"))?;
    let nodes = Form::of(&mut args).map_err(|error| error.to_string())?;
    Ok((args.pod, nodes))
}

fn busy() -> Fault {
    let text = "too many concurrent requests; send the request again\n".to_owned();
    (StatusCode::SERVICE_UNAVAILABLE, text)
}

fn json(answer: &impl Serialize) -> Response {
    match serde_json::to_vec(answer) {
        Ok(body) => ([(header::CONTENT_TYPE, "application/json")], body).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}
