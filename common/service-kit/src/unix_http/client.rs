//! Calls over a Unix socket.

use std::path::{Path, PathBuf};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header::{CONTENT_TYPE, HOST};
use axum::http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;

use super::UnixHttpError;

/// Largest answer to a call in JSON, in bytes.
const JSON: usize = 16 << 20;
/// Length of a reason passed on, in bytes.
const REASON: usize = 200;

/// A client of one server. Each call has its own connection.
#[derive(Debug, Clone)]
pub struct UnixClient {
    path: PathBuf,
    limit: Duration,
}

impl UnixClient {
    /// A client of the server at `path`, whose calls take at most `limit`.
    pub fn new(path: impl Into<PathBuf>, limit: Duration) -> Self {
        Self {
            path: path.into(),
            limit,
        }
    }

    /// The socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Sends a request, and returns the answer whatever its status.
    ///
    /// # Errors
    /// When the server is not there, is too slow, breaks off, or answers with over `max_body`
    /// bytes.
    pub async fn send(
        &self,
        request: Request<Bytes>,
        max_body: usize,
    ) -> Result<Response<Bytes>, UnixHttpError> {
        let read = async |answer: Response<Body>| {
            let (parts, body) = answer.into_parts();
            let body = Limited::new(body, max_body).collect().await;
            let body = body.map_err(|error| self.failed(error))?.to_bytes();
            Ok(Response::from_parts(parts, body))
        };
        self.exchange(request, read).await?
    }

    /// Sends a request, and hands the answer to `read` once its head is there. Its body arrives as
    /// `read` takes it, all within the time limit of a call.
    ///
    /// # Errors
    /// When the server is not there, is too slow, or breaks off before the body.
    pub async fn exchange<T, F: Future<Output = T>>(
        &self,
        request: Request<Bytes>,
        read: impl FnOnce(Response<Body>) -> F,
    ) -> Result<T, UnixHttpError> {
        let exchange = tokio::time::timeout(self.limit, self.unlimited(request, read));
        exchange.await.unwrap_or_else(|_| {
            Err(UnixHttpError::TooLate {
                path: self.path.clone(),
                limit: self.limit,
            })
        })
    }

    /// Gets a page.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub async fn get(
        &self,
        path_and_query: &str,
        max_body: usize,
    ) -> Result<Response<Bytes>, UnixHttpError> {
        self.send(
            self.request(Method::GET, path_and_query, Bytes::new())?,
            max_body,
        )
        .await
    }

    /// Sends `message` and returns the answer, both as JSON. An answer without a body is `null`.
    ///
    /// # Errors
    /// As [`send`](Self::send); [`UnixHttpError::Refused`] for a status that is no success;
    /// [`UnixHttpError::Json`] for another answer than the expected one.
    pub async fn call<Q: Serialize + Sync, A: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        message: &Q,
    ) -> Result<A, UnixHttpError> {
        let json = |source| UnixHttpError::Json {
            path: self.path.clone(),
            source,
        };
        let body = serde_json::to_vec(message).map_err(json)?;
        let mut request = self.request(method, path, body.into())?;
        let kind = HeaderValue::from_static("application/json");
        request.headers_mut().insert(CONTENT_TYPE, kind);
        let answer = self.send(request, JSON).await?;
        if !answer.status().is_success() {
            return Err(UnixHttpError::Refused {
                path: self.path.clone(),
                status: answer.status(),
                reason: first_line(answer.body()),
            });
        }
        let body: &[u8] = match answer.status() {
            StatusCode::NO_CONTENT => b"null",
            _ => answer.body(),
        };
        serde_json::from_slice(body).map_err(json)
    }

    fn request(
        &self,
        method: Method,
        path_and_query: &str,
        body: Bytes,
    ) -> Result<Request<Bytes>, UnixHttpError> {
        let request = Request::builder().method(method).uri(path_and_query);
        request.body(body).map_err(|error| self.failed(error))
    }

    async fn unlimited<T, F: Future<Output = T>>(
        &self,
        mut request: Request<Bytes>,
        read: impl FnOnce(Response<Body>) -> F,
    ) -> Result<T, UnixHttpError> {
        let stream = UnixStream::connect(&self.path).await;
        let stream = stream.map_err(|source| UnixHttpError::Io {
            action: "connect to",
            path: self.path.clone(),
            source,
        })?;
        let host = HeaderValue::from_static("localhost");
        request.headers_mut().entry(HOST).or_insert(host);
        let handshake = http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = handshake.map_err(|error| self.failed(error))?;
        let answer = async {
            let answer = sender.send_request(request.map(Full::new)).await;
            let answer = answer.map_err(|error| self.failed(error))?;
            Ok(read(answer.map(Body::new)).await)
        };
        // The connection makes progress in this task, and goes with it.
        let mut answer = std::pin::pin!(answer);
        tokio::select! {
            answer = &mut answer => answer,
            ended = connection => match ended {
                Ok(()) => answer.await,
                Err(error) => Err(self.failed(error)),
            },
        }
    }

    fn failed(&self, error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> UnixHttpError {
        UnixHttpError::Exchange {
            path: self.path.clone(),
            source: error.into(),
        }
    }
}

fn first_line(body: &[u8]) -> String {
    let line = body.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = line.get(..REASON).unwrap_or(line);
    String::from_utf8_lossy(line).into_owned()
}
