//! Request of a daemon's inventory.

use std::io::Read as _;
use std::net::SocketAddr;
use std::time::Duration;

use flate2::read::GzDecoder;
use http_body_util::{BodyExt as _, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{ACCEPT_ENCODING, AUTHORIZATION, CONTENT_ENCODING, ETAG, HOST, IF_NONE_MATCH};
use hyper::http::Error as RequestError;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tetris_service_kit::bound_tls::{BoundClient, BoundStream};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::error::{PageError, PollError};
use super::page::Page;
use super::tokens::Tokens;
use crate::load::chain;

/// Path of the page.
const PATH: &str = "/inventory/objects";

/// A daemon that serves a node's inventory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Daemon {
    /// Name of its node.
    pub node: String,
    /// Address of its inventory.
    pub address: SocketAddr,
}

/// Answer of a daemon.
#[derive(Debug)]
pub(super) enum Fetched {
    /// No change since the known tag.
    Unchanged,
    /// A new page, and its tag.
    Page(Page, Option<String>),
}

/// Common parts of all requests.
#[derive(Debug)]
pub(super) struct Fetcher {
    /// Connections to daemons.
    pub(super) client: BoundClient,
    /// Tokens for daemons.
    pub(super) tokens: Tokens,
    /// Timeout of a request.
    pub(super) time: Duration,
    /// Maximum size of a page in bytes, compressed and decompressed.
    pub(super) size: usize,
}

impl Fetcher {
    /// Fetches the page of `daemon` unless its tag is `known`.
    pub(super) async fn fetch(
        &self,
        daemon: &Daemon,
        known: Option<&str>,
    ) -> Result<Fetched, PollError> {
        let fetched = tokio::time::timeout(self.time, self.exchange(daemon, known)).await;
        fetched.unwrap_or_else(|_| {
            let seconds = self.time.as_secs_f64();
            Err(unreachable(daemon, format!("no answer within {seconds} s")))
        })
    }

    async fn exchange(&self, daemon: &Daemon, known: Option<&str>) -> Result<Fetched, PollError> {
        let lost = |error: &dyn std::error::Error| unreachable(daemon, chain(error));
        let stream = TcpStream::connect(daemon.address).await;
        let stream = stream.map_err(|error| lost(&error))?;
        let connected = self.client.connect(stream, daemon.address.ip()).await;
        let BoundStream { stream, audience } = connected.map_err(|error| lost(&error))?;
        // From here on the peer is the one that the audience names, and the token is for no other.
        let token = self.tokens.token(&audience).await;
        let token = token.map_err(|error| PollError::Refused {
            node: daemon.node.clone(),
            address: daemon.address,
            problem: format!("no token for it: {error}"),
            next_step: "allow the scaler's service account to create serviceaccounts/token for itself",
        })?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| lost(&error))?;
        // Aborted when it is dropped, with this future.
        let mut driven = JoinSet::new();
        driven.spawn(connection);
        let request = request(daemon, &token, known);
        let request = request.map_err(|error| lost(&error))?;
        let answer = sender.send_request(request).await;
        let answer = answer.map_err(|error| lost(&error))?;
        match answer.status() {
            StatusCode::NOT_MODIFIED if known.is_some() => return Ok(Fetched::Unchanged),
            StatusCode::OK => {}
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                self.tokens.forget(&audience);
                return Err(PollError::Refused {
                    node: daemon.node.clone(),
                    address: daemon.address,
                    problem: format!("HTTP {}", answer.status()),
                    next_step: "name the scaler's service account in the daemon's network.inventory_clients",
                });
            }
            other => return Err(unreachable(daemon, format!("HTTP {other}"))),
        }
        self.page(daemon, answer).await
    }

    async fn page(
        &self,
        daemon: &Daemon,
        answer: Response<Incoming>,
    ) -> Result<Fetched, PollError> {
        let tag = answer.headers().get(ETAG);
        let tag = tag.and_then(|tag| tag.to_str().ok()).map(str::to_owned);
        let encoding = answer.headers().get(CONTENT_ENCODING);
        let is_gzip = encoding.is_some_and(|encoding| encoding == "gzip");
        let size = self.size;
        let body = bounded(answer.into_body(), daemon, size).await?;
        let node = daemon.node.clone();
        // Decompressing and parsing a page of megabytes takes long.
        let read = tokio::task::spawn_blocking(move || {
            let body = if is_gzip {
                decompressed(&body, size)?
            } else {
                body
            };
            Page::read(&body, &node)
        });
        match read.await {
            Ok(Ok(page)) => Ok(Fetched::Page(page, tag)),
            Ok(Err(error)) => Err(malformed(daemon, error.to_string())),
            Err(error) => Err(malformed(daemon, error.to_string())),
        }
    }
}

fn request(
    daemon: &Daemon,
    token: &str,
    known: Option<&str>,
) -> Result<Request<Empty<Bytes>>, RequestError> {
    let mut request = Request::get(PATH)
        .header(HOST, daemon.address.to_string())
        .header(AUTHORIZATION, format!("Bearer {token}"))
        .header(ACCEPT_ENCODING, "gzip");
    if let Some(tag) = known {
        request = request.header(IF_NONE_MATCH, tag);
    }
    request.body(Empty::new())
}

/// Reads the body as it comes, of at most `size` bytes.
async fn bounded(mut answer: Incoming, daemon: &Daemon, size: usize) -> Result<Vec<u8>, PollError> {
    let mut body = Vec::new();
    while let Some(frame) = answer.frame().await {
        let frame = frame.map_err(|error| unreachable(daemon, chain(&error)))?;
        let Ok(part) = frame.into_data() else {
            continue;
        };
        if body.len().saturating_add(part.len()) > size {
            return Err(malformed(daemon, format!("more than {size} bytes")));
        }
        body.extend_from_slice(&part);
    }
    Ok(body)
}

/// Decompresses a body, of at most `size` bytes.
///
/// # Errors
///
/// Fails if the body is damaged, or has more bytes.
pub fn decompressed(body: &[u8], size: usize) -> Result<Vec<u8>, PageError> {
    let limit = u64::try_from(size).unwrap_or(u64::MAX).saturating_add(1);
    let mut plain = Vec::new();
    let read = GzDecoder::new(body).take(limit).read_to_end(&mut plain);
    read.map_err(PageError::Compression)?;
    if plain.len() > size {
        return Err(PageError::TooLarge(size));
    }
    Ok(plain)
}

fn unreachable(daemon: &Daemon, problem: String) -> PollError {
    PollError::Unreachable {
        node: daemon.node.clone(),
        address: daemon.address,
        problem,
    }
}

fn malformed(daemon: &Daemon, problem: String) -> PollError {
    PollError::Malformed {
        node: daemon.node.clone(),
        address: daemon.address,
        problem,
    }
}
