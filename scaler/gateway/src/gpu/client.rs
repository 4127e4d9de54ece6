//! Requests of the gateway's own to an executor: its page, and orders to load and unload models.

use std::io::Read as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, HOST, HeaderValue};
use hyper::{Method, Request, StatusCode};
use tetris_service_kit::budget::{Budget, Charge, Exceeded};
use thiserror::Error;
use tracing::Instrument as _;

use super::executor::Executor;
use super::limits::{ORDER, PAGE, PAGE_WITH_PARTS};
use crate::traces;

/// Longest time of a request and its whole answer.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Least memory taken for an answer, in bytes.
const LEAST: usize = 16 << 10;
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
    /// An answer above its limit.
    #[error("{path}: the answer is longer than expected, {most} bytes at most")]
    TooLong { path: String, most: usize },
    /// No memory for a page at the moment.
    #[error("memory for pages: {0}")]
    NoRoom(#[from] Exceeded),
}

/// Memory for pages, of all executors. One gets half of it at most.
pub(crate) type PageMemory = Budget<SocketAddr>;

/// A page of an executor, not read yet.
#[derive(Debug)]
pub(super) struct Page {
    pub text: Vec<u8>,
    /// Its memory.
    _charge: Charge<SocketAddr>,
}

/// Asks for the executor's page.
pub(super) async fn page(
    executor: &Executor,
    parts: bool,
    memory: &PageMemory,
) -> Result<Page, CallError> {
    let path = format!("/v2/gpu?parts={parts}");
    let most = if parts { PAGE_WITH_PARTS } else { PAGE };
    let mut charge = memory.charge(executor.orders.address, 0)?;
    let text = call(executor, Method::GET, path, most, |bytes| {
        charge.grow_to(bytes)
    })
    .await?;
    Ok(Page {
        text,
        _charge: charge,
    })
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
    let instance = &executor.endpoint.name;
    let span = tracing::debug_span!("order", otel.kind = "client", order, model, instance);
    let called = call(executor, Method::POST, path, ORDER, |_| Ok(()));
    called.instrument(span).await.map(drop)
}

/// Sends a request, and returns the answer, of at most `most` bytes. Asks for `room` before it takes memory for it.
async fn call(
    executor: &Executor,
    method: Method,
    path: String,
    most: usize,
    room: impl FnMut(usize) -> Result<(), Exceeded>,
) -> Result<Vec<u8>, CallError> {
    let asked = path.clone();
    let calling = async {
        let endpoint = &executor.orders;
        let mut request = Request::builder()
            .method(method)
            .uri(path.as_str())
            .header(HOST, endpoint.address.to_string())
            .body(Full::default())
            .map_err(|error| CallError::NoAnswer(error.to_string()))?;
        traces::follow(request.headers_mut());
        if let Some(file) = executor.token_file() {
            let headers = request.headers_mut();
            headers.insert(AUTHORIZATION, authorization(file).await?);
        }
        let sent = endpoint.pool.send(Box::new(request)).await;
        let (response, connection) =
            sent.map_err(|error| CallError::NoAnswer(error.to_string()))?;
        let (parts, mut body) = response.into_parts();
        let text = match read(&mut body, most, room).await {
            Ok(text) => text,
            Err(ReadError::TooLong) => return Err(CallError::TooLong { path, most }),
            Err(ReadError::NoRoom(error)) => return Err(error.into()),
            Err(ReadError::Broken(error)) => return Err(CallError::NoAnswer(error.to_string())),
        };
        if let Some(connection) = connection {
            endpoint.pool.give_back(connection);
        }
        if parts.status.is_success() {
            return Ok(text);
        }
        let message = String::from_utf8_lossy(text.get(..SHOWN).unwrap_or(&text)).into_owned();
        Err(CallError::Refused {
            path,
            status: parts.status,
            message,
        })
    };
    let called = tokio::time::timeout(TIMEOUT, calling).await;
    called.unwrap_or_else(|_| {
        Err(CallError::NoAnswer(format!(
            "{asked}: not within {TIMEOUT:?}"
        )))
    })
}

/// The reason an answer could not be read.
#[derive(Debug)]
enum ReadError {
    TooLong,
    NoRoom(Exceeded),
    Broken(hyper::Error),
}

/// Reads an answer into one buffer: the pieces in which it comes may take much more than their bytes.
async fn read(
    body: &mut Incoming,
    most: usize,
    mut room: impl FnMut(usize) -> Result<(), Exceeded>,
) -> Result<Vec<u8>, ReadError> {
    let mut text = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(ReadError::Broken)?;
        let Some(bytes) = frame.data_ref() else {
            continue;
        };
        let length = text.len().saturating_add(bytes.len());
        if length > most {
            return Err(ReadError::TooLong);
        }
        if length > text.capacity() {
            let capacity = text.capacity().saturating_mul(2).max(LEAST);
            let capacity = capacity.min(most).max(length);
            room(capacity).map_err(ReadError::NoRoom)?;
            text.reserve_exact(capacity.saturating_sub(text.len()));
        }
        text.extend_from_slice(bytes);
    }
    Ok(text)
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
