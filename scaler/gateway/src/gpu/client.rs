//! Requests of the gateway's own to an executor: its page, and orders to load and unload models.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{Method, Request, StatusCode};
use thiserror::Error;

use super::status::GpuStatus;
use crate::endpoint::Endpoint;

/// Longest time of a request and its whole answer.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Largest answer, in bytes.
const ANSWER: usize = 16 << 20;
/// Bytes of a refusal that are shown.
const SHOWN: usize = 200;

/// The reason an executor did not do what the gateway asked of it.
#[derive(Debug, Error)]
pub(super) enum CallError {
    /// No answer, or not a whole one.
    #[error("no answer: {0}")]
    NoAnswer(String),
    /// An answer with the status of an error.
    #[error("{path}: status {status}: {message}")]
    Refused {
        path: String,
        status: StatusCode,
        message: String,
    },
    /// A page that the gateway cannot read.
    #[error("page /v2/gpu: {0}")]
    Page(String),
}

/// Asks for the executor's page.
pub(super) async fn status(endpoint: &Endpoint, parts: bool) -> Result<GpuStatus, CallError> {
    let path = format!("/v2/gpu?parts={parts}");
    let page = call(endpoint, Method::GET, path).await?;
    GpuStatus::parse(&page).map_err(CallError::Page)
}

/// Asks for a model's residency. The executor answers before the bytes are there.
pub(super) async fn load(endpoint: &Endpoint, model: &str) -> Result<(), CallError> {
    order(endpoint, model, "load").await
}

/// Gives up a model's residency.
pub(super) async fn unload(endpoint: &Endpoint, model: &str) -> Result<(), CallError> {
    order(endpoint, model, "unload").await
}

async fn order(endpoint: &Endpoint, model: &str, order: &str) -> Result<(), CallError> {
    let path = format!("/v2/repository/models/{model}/{order}");
    call(endpoint, Method::POST, path).await.map(drop)
}

async fn call(endpoint: &Endpoint, method: Method, path: String) -> Result<Bytes, CallError> {
    let calling = async {
        let request = Request::builder()
            .method(method)
            .uri(&path)
            .header(hyper::header::HOST, endpoint.address.to_string())
            .body(Full::default())
            .map_err(|error| CallError::NoAnswer(error.to_string()))?;
        let sent = endpoint.pool.send(Box::new(request)).await;
        let (response, connection) =
            sent.map_err(|error| CallError::NoAnswer(error.to_string()))?;
        let (parts, body) = response.into_parts();
        let body = Limited::new(body, ANSWER).collect().await;
        let body = body.map_err(|error| CallError::NoAnswer(error.to_string()))?;
        if let Some(connection) = connection {
            endpoint.pool.give_back(connection);
        }
        let body = body.to_bytes();
        if parts.status.is_success() {
            return Ok(body);
        }
        let message = String::from_utf8_lossy(body.get(..SHOWN).unwrap_or(&body)).into_owned();
        Err(CallError::Refused {
            path: path.clone(),
            status: parts.status,
            message,
        })
    };
    let called = tokio::time::timeout(TIMEOUT, calling).await;
    called.unwrap_or_else(|_| {
        Err(CallError::NoAnswer(format!(
            "{path}: not within {TIMEOUT:?}"
        )))
    })
}
