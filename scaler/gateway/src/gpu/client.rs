//! Requests of the gateway's own to an executor: its page, and orders to load and unload models.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::header::{AUTHORIZATION, HOST, HeaderValue};
use hyper::{Method, Request, StatusCode};
use thiserror::Error;
use tokio::sync::Semaphore;

use super::executor::Executor;
use super::status::GpuStatus;

/// Longest time of a request and its whole answer.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Largest page with the parts of models, one without them, and answer to an order, in bytes. A part takes about a
/// hundred bytes, and a model without its parts two hundred.
const PAGE_WITH_PARTS: usize = 16 << 20;
const PAGE: usize = 4 << 20;
const ANSWER: usize = 64 << 10;
/// Pages with parts that are read at a time, of all pools. In memory one takes up to eight times as much.
static TURN: Semaphore = Semaphore::const_new(1);
/// Longest token, in bytes.
const TOKEN: u64 = 4096;
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
    /// No token to ask with.
    #[error("{}: {reason}", path.display())]
    Token { path: PathBuf, reason: String },
    /// A page that the gateway cannot read.
    #[error("page /v2/gpu: {0}")]
    Page(String),
}

/// Asks for the executor's page.
pub(super) async fn status(executor: &Executor, parts: bool) -> Result<GpuStatus, CallError> {
    let path = format!("/v2/gpu?parts={parts}");
    // Nothing closes it.
    let turn = if parts {
        TURN.acquire().await.ok()
    } else {
        None
    };
    let most = if turn.is_some() {
        PAGE_WITH_PARTS
    } else {
        PAGE
    };
    let page = call(executor, Method::GET, path, most).await?;
    GpuStatus::parse(&page).map_err(CallError::Page)
}

/// Asks for a model's residency. The executor answers before the bytes are there.
pub(super) async fn load(executor: &Executor, model: &str) -> Result<(), CallError> {
    order(executor, model, "load").await
}

/// Gives up a model's residency.
pub(super) async fn unload(executor: &Executor, model: &str) -> Result<(), CallError> {
    order(executor, model, "unload").await
}

async fn order(executor: &Executor, model: &str, order: &str) -> Result<(), CallError> {
    let path = format!("/v2/repository/models/{model}/{order}");
    call(executor, Method::POST, path, ANSWER).await.map(drop)
}

async fn call(
    executor: &Executor,
    method: Method,
    path: String,
    most: usize,
) -> Result<Bytes, CallError> {
    let calling = async {
        let endpoint = &executor.orders;
        let mut request = Request::builder()
            .method(method)
            .uri(&path)
            .header(HOST, endpoint.address.to_string())
            .body(Full::default())
            .map_err(|error| CallError::NoAnswer(error.to_string()))?;
        if let Some(file) = executor.token_file() {
            let headers = request.headers_mut();
            headers.insert(AUTHORIZATION, authorization(file).await?);
        }
        let sent = endpoint.pool.send(Box::new(request)).await;
        let (response, connection) =
            sent.map_err(|error| CallError::NoAnswer(error.to_string()))?;
        let (parts, body) = response.into_parts();
        let body = Limited::new(body, most).collect().await;
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

/// The header with the token in a file, which may have changed since.
async fn authorization(file: &Path) -> Result<HeaderValue, CallError> {
    let path = file.to_owned();
    let read = tokio::task::spawn_blocking(move || {
        let mut token = String::new();
        let file = std::fs::File::open(path)?;
        file.take(TOKEN).read_to_string(&mut token)?;
        std::io::Result::Ok(token)
    });
    let refused = |reason: String| CallError::Token {
        path: file.to_owned(),
        reason,
    };
    let token = match read.await {
        Ok(Ok(token)) => token,
        Ok(Err(error)) => return Err(refused(error.to_string())),
        Err(error) => return Err(refused(error.to_string())),
    };
    let token = token.trim();
    if token.is_empty() {
        return Err(refused("expected a token, found nothing".to_owned()));
    }
    let header = HeaderValue::from_str(&format!("Bearer {token}"));
    let mut header = header
        .map_err(|_| refused("expected a token of visible letters, found others".to_owned()))?;
    header.set_sensitive(true);
    Ok(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_token_is_that_of_the_file_now_and_never_shown() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        for token in ["a token\n", "another"] {
            std::fs::write(&file, token).unwrap();
            let header = authorization(&file).await.unwrap();
            assert_eq!(header, format!("Bearer {}", token.trim()));
            assert!(header.is_sensitive());
        }
    }

    #[tokio::test]
    async fn without_a_token_there_is_no_order() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        let error = authorization(&file).await.unwrap_err();
        assert!(error.to_string().contains("token: No such file"), "{error}");
        for (content, says) in [
            (&b" \n"[..], "found nothing"),
            (b"a\nb", "visible letters"),
            (b"\xff", "UTF-8"),
        ] {
            std::fs::write(&file, content).unwrap();
            let error = authorization(&file).await.unwrap_err();
            assert!(error.to_string().contains(says), "{error}");
        }
    }
}
