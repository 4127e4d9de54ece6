//! Pages that are made once per status and encoding, and answered from memory: 304 while they did not change.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher as _};
use std::io;
use std::sync::{Arc, Weak};

use axum::Extension;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Query, Request, State};
use axum::http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use tokio::sync::{Mutex, watch};

use super::inventory::Inventory;
use super::status::Status;
use super::text;
use crate::report::NodeStatus;

/// Header that says when the pass ended that a page tells of, in milliseconds since the epoch.
pub const OBSERVED_HEADER: &str = "tetris-observed-ms";

/// A path with a page behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Endpoint {
    Status,
    Inventory,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Page {
    Status,
    StatusWithModels,
    Inventory,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct StatusQuery {
    #[serde(default)]
    models: bool,
}

/// A page as it is answered, and the status that it tells of. Weak, so that an old status is not kept for nobody;
/// yet its address is not used again while this is here.
#[derive(Debug)]
struct Entry {
    status: Weak<NodeStatus>,
    headers: HeaderMap,
    body: Bytes,
}

/// The pages of one endpoint: one place for each page and encoding, so their number is fixed.
#[derive(Debug)]
pub(super) struct Cache {
    endpoint: Endpoint,
    status: watch::Receiver<Option<Arc<NodeStatus>>>,
    entries: BTreeMap<(Page, bool), Mutex<Option<Entry>>>,
}

impl Cache {
    pub(super) fn new(
        endpoint: Endpoint,
        status: watch::Receiver<Option<Arc<NodeStatus>>>,
    ) -> Self {
        let pages: &[Page] = match endpoint {
            Endpoint::Status => &[Page::Status, Page::StatusWithModels],
            Endpoint::Inventory => &[Page::Inventory],
        };
        let entries = pages
            .iter()
            .flat_map(|page| [(*page, false), (*page, true)])
            .map(|key| (key, Mutex::default()))
            .collect();
        Self {
            endpoint,
            status,
            entries,
        }
    }

    fn page(&self, uri: &Uri) -> Result<Page, Response> {
        if self.endpoint == Endpoint::Inventory {
            return Ok(Page::Inventory);
        }
        let Query(query) = Query::<StatusQuery>::try_from_uri(uri).map_err(|err| {
            let reason = format!("{err}; expected nothing, `models=true` or `models=false`\n");
            text(StatusCode::BAD_REQUEST, reason)
        })?;
        Ok(match query.models {
            true => Page::StatusWithModels,
            false => Page::Status,
        })
    }
}

/// What [`render`] is to make.
#[derive(Debug, Clone)]
pub(super) struct Job(Page, Arc<NodeStatus>);

/// Answers from memory. Whoever asks first for a page has it made; others that ask meanwhile wait for that one.
pub(super) async fn cached(
    State(cache): State<Arc<Cache>>,
    mut request: Request,
    next: Next,
) -> Response {
    let page = match cache.page(request.uri()) {
        Ok(page) => page,
        Err(response) => return response,
    };
    let Some(status) = cache.status.borrow().clone() else {
        return text(StatusCode::SERVICE_UNAVAILABLE, "no pass has ended yet\n");
    };
    let gzip = accepts_gzip(request.headers());
    let asked = std::mem::take(request.headers_mut());
    if gzip {
        let gzip = HeaderValue::from_static("gzip");
        request.headers_mut().insert(ACCEPT_ENCODING, gzip);
    }
    request
        .extensions_mut()
        .insert(Job(page, Arc::clone(&status)));
    let Some(entry) = cache.entries.get(&(page, gzip)) else {
        return next.run(request).await;
    };
    let mut entry = entry.lock().await;
    let fresh = entry
        .as_ref()
        .is_some_and(|entry| Weak::ptr_eq(&entry.status, &Arc::downgrade(&status)));
    if !fresh {
        match take(next.run(request).await).await {
            Ok((headers, body)) => {
                *entry = Some(Entry {
                    status: Arc::downgrade(&status),
                    headers,
                    body,
                });
            }
            Err(response) => return response,
        }
    }
    match entry.as_ref() {
        Some(entry) => answer(entry, &asked),
        None => text(StatusCode::INTERNAL_SERVER_ERROR, "the page was not made\n"),
    }
}

/// A response's headers and body; an error as it is.
async fn take(response: Response) -> Result<(HeaderMap, Bytes), Response> {
    if response.status() != StatusCode::OK {
        return Err(response);
    }
    let (parts, body) = response.into_parts();
    match to_bytes(body, usize::MAX).await {
        Ok(body) => Ok((parts.headers, body)),
        Err(err) => Err(failed(&err)),
    }
}

fn answer(entry: &Entry, asked: &HeaderMap) -> Response {
    let mut headers = entry.headers.clone();
    if matches(asked, headers.get(ETAG)) {
        headers.remove(CONTENT_TYPE);
        headers.remove(axum::http::header::CONTENT_ENCODING);
        return (StatusCode::NOT_MODIFIED, headers).into_response();
    }
    headers.insert(CONTENT_LENGTH, HeaderValue::from(entry.body.len()));
    (headers, Body::from(entry.body.clone())).into_response()
}

/// Whether `If-None-Match` names the tag, compared weakly (RFC 9110, 13.1.2).
fn matches(asked: &HeaderMap, tag: Option<&HeaderValue>) -> bool {
    let Some(tag) = tag.and_then(|tag| tag.to_str().ok()) else {
        return false;
    };
    let opaque = |tag: &str| tag.strip_prefix("W/").unwrap_or(tag).to_owned();
    listed(asked, &IF_NONE_MATCH).any(|item| item == "*" || opaque(item) == opaque(tag))
}

/// Whether `Accept-Encoding` names gzip and does not rule it out.
fn accepts_gzip(asked: &HeaderMap) -> bool {
    listed(asked, &ACCEPT_ENCODING).any(|item| {
        let (coding, weight) = item.split_once(';').unwrap_or((item, ""));
        let weight = weight.trim().strip_prefix("q=").unwrap_or("1");
        coding.trim().eq_ignore_ascii_case("gzip") && weight.parse().is_ok_and(|q: f32| q > 0.0)
    })
}

/// Items of a header that is a list.
fn listed<'a>(
    headers: &'a HeaderMap,
    name: &axum::http::HeaderName,
) -> impl Iterator<Item = &'a str> {
    headers
        .get_all(name)
        .into_iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
}

/// Makes the page that [`cached`] asks for, on a thread that may take its time.
pub(super) async fn render(Extension(Job(page, status)): Extension<Job>) -> Response {
    let observed = HeaderValue::from(status.observed_ms);
    let made = match tokio::task::spawn_blocking(move || make(page, &status)).await {
        Ok(Ok(made)) => made,
        Ok(Err(err)) => return failed(&err),
        Err(err) => return failed(&err),
    };
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static("application/json")),
        (CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        (VARY, HeaderValue::from_static("accept-encoding")),
    ];
    let tag = [(ETAG.as_str(), made.tag)];
    let observed = [(OBSERVED_HEADER, observed)];
    (headers, tag, observed, made.body).into_response()
}

fn failed(err: &dyn std::error::Error) -> Response {
    let reason = format!("the page could not be made: {err}\n");
    text(StatusCode::INTERNAL_SERVER_ERROR, reason)
}

struct Made {
    tag: String,
    body: Vec<u8>,
}

fn make(page: Page, status: &NodeStatus) -> serde_json::Result<Made> {
    match page {
        Page::Inventory => {
            let inventory = Inventory::of(status);
            document(&inventory, &inventory)
        }
        Page::Status | Page::StatusWithModels => {
            let content = || Status::content(status, page == Page::StatusWithModels);
            document(&content(), &content().observed(status.observed_ms))
        }
    }
}

/// A page whose tag is that of its content. Weak: with another encoding, or observed later, other bytes have the same tag.
fn document(content: &impl Serialize, page: &impl Serialize) -> serde_json::Result<Made> {
    let mut hash = HashWriter(DefaultHasher::new());
    serde_json::to_writer(&mut hash, content)?;
    Ok(Made {
        tag: format!("W/\"{:016x}\"", hash.0.finish()),
        body: serde_json::to_vec(page)?,
    })
}

/// Hashes what is written to it, so that content is hashed without being kept. Nobody gains from a collision who can
/// make one: only the daemon chooses what is hashed.
struct HashWriter(DefaultHasher);

impl io::Write for HashWriter {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.0.write(buf);
        Ok(buf.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
