//! Request of a daemon's inventory.

use std::net::SocketAddr;
use std::time::Duration;

use futures::StreamExt as _;
use reqwest::header::{ETAG, IF_NONE_MATCH};
use reqwest::{Client, StatusCode};

use super::PollError;
use super::page::Page;
use crate::load::chain;

/// A daemon that serves a node's inventory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Daemon {
    /// Name of its node.
    pub node: String,
    /// Address of its HTTP server.
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

/// Fetches the page of `daemon` unless its tag is `known`.
pub(super) async fn fetch(
    client: &Client,
    daemon: &Daemon,
    known: Option<&str>,
    limits: (Duration, usize),
) -> Result<Fetched, PollError> {
    let (time, size) = limits;
    let fetched = tokio::time::timeout(time, exchange(client, daemon, known, size)).await;
    fetched.unwrap_or_else(|_| {
        let seconds = time.as_secs_f64();
        Err(unreachable(daemon, format!("no answer within {seconds} s")))
    })
}

async fn exchange(
    client: &Client,
    daemon: &Daemon,
    known: Option<&str>,
    size: usize,
) -> Result<Fetched, PollError> {
    let url = format!("http://{}/inventory/objects", daemon.address);
    let mut request = client.get(url);
    if let Some(tag) = known {
        request = request.header(IF_NONE_MATCH, tag);
    }
    let answer = request.send().await;
    let answer = answer.map_err(|error| unreachable(daemon, chain(&error)))?;
    match answer.status() {
        StatusCode::NOT_MODIFIED if known.is_some() => return Ok(Fetched::Unchanged),
        StatusCode::OK => {}
        other => return Err(unreachable(daemon, format!("HTTP {other}"))),
    }
    let tag = answer.headers().get(ETAG);
    let tag = tag.and_then(|tag| tag.to_str().ok()).map(str::to_owned);
    let body = bounded(answer, daemon, size).await?;
    let node = daemon.node.clone();
    // Parsing a page of megabytes takes long.
    let read = tokio::task::spawn_blocking(move || Page::read(&body, &node)).await;
    match read {
        Ok(Ok(page)) => Ok(Fetched::Page(page, tag)),
        Ok(Err(problem)) => Err(malformed(daemon, problem)),
        Err(error) => Err(malformed(daemon, error.to_string())),
    }
}

/// Reads the decompressed body, of at most `size` bytes.
async fn bounded(
    answer: reqwest::Response,
    daemon: &Daemon,
    size: usize,
) -> Result<Vec<u8>, PollError> {
    let mut body = Vec::new();
    let mut parts = answer.bytes_stream();
    while let Some(part) = parts.next().await {
        let part = part.map_err(|error| unreachable(daemon, chain(&error)))?;
        if body.len().saturating_add(part.len()) > size {
            return Err(malformed(daemon, format!("more than {size} bytes")));
        }
        body.extend_from_slice(&part);
    }
    Ok(body)
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
