//! Cached pages: made once per status and encoding, and answered from memory, with 304 while
//! unchanged.

use std::collections::BTreeMap;
use std::hash::RandomState;
use std::sync::{Arc, Weak};

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, Request, State};
use axum::http::header::{CONTENT_LENGTH, ETAG};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use tetris_service_kit::http::text;
use tokio::sync::{Mutex, watch};

use super::failed;
use super::negotiate::{accepts_gzip, matches};
use super::render::{Job, Page};
use crate::report::NodeStatus;

/// A path with a page behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Endpoint {
    /// `/status`.
    Status,
    /// `/inventory`.
    Inventory,
    /// `/inventory/objects`.
    Objects,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct StatusQuery {
    #[serde(default)]
    models: bool,
}

/// A query of `/status` that is not understood.
#[derive(Debug, thiserror::Error)]
#[error("{0}; expected nothing, `models=true` or `models=false`")]
pub(crate) struct QueryMistake(#[from] QueryRejection);

/// Returns true if `/status` is asked for with its models, or the mistake in the query.
pub(crate) fn with_models(uri: &Uri) -> Result<bool, QueryMistake> {
    let Query(query) = Query::<StatusQuery>::try_from_uri(uri)?;
    Ok(query.models)
}

/// A page as it is answered, and the status that it shows. Weak, so that an old status is not
/// kept for no one; yet its address is not used again while this is here.
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
    /// Keys the tags' hash, so that no client can make two contents with one tag. Tags change when the
    /// daemon restarts.
    tags: RandomState,
}

impl Cache {
    pub(super) fn new(
        endpoint: Endpoint,
        status: watch::Receiver<Option<Arc<NodeStatus>>>,
    ) -> Self {
        let pages: &[Page] = match endpoint {
            Endpoint::Status => &[Page::Status, Page::StatusWithModels],
            Endpoint::Inventory => &[Page::Inventory],
            Endpoint::Objects => &[Page::Objects],
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
            tags: RandomState::new(),
        }
    }

    /// A place that is locked is about to get a page of the latest status.
    fn drop_old(&self) {
        let latest = self.status.borrow().clone();
        let is_latest = |entry: &Entry| latest.as_ref().is_some_and(|s| entry.tells_of(s));
        for place in self.entries.values() {
            if let Ok(mut place) = place.try_lock() {
                place.take_if(|entry| !is_latest(entry));
            }
        }
    }

    /// The requested page, or the mistake in the request.
    fn page(&self, uri: &Uri) -> Result<Page, QueryMistake> {
        match self.endpoint {
            Endpoint::Inventory => return Ok(Page::Inventory),
            Endpoint::Objects => return Ok(Page::Objects),
            Endpoint::Status => {}
        }
        Ok(if with_models(uri)? {
            Page::StatusWithModels
        } else {
            Page::Status
        })
    }
}

/// Drops pages whose status is no longer the latest, after every pass: no client would be answered
/// with them, and those of a full node are of many megabytes. Ends when there are no more passes.
pub(super) async fn sweep(
    caches: Vec<Arc<Cache>>,
    mut status: watch::Receiver<Option<Arc<NodeStatus>>>,
) {
    while status.changed().await.is_ok() {
        for cache in &caches {
            cache.drop_old();
        }
    }
}

/// Answers from memory. The first request for a page has it made; concurrent ones wait for it.
pub(super) async fn cached(
    State(cache): State<Arc<Cache>>,
    mut request: Request,
    next: Next,
) -> Response {
    let page = match cache.page(request.uri()) {
        Ok(page) => page,
        Err(mistake) => return text(StatusCode::BAD_REQUEST, mistake.to_string()),
    };
    let gzip = accepts_gzip(request.headers());
    let asked = std::mem::take(request.headers_mut());
    let Some(place) = cache.entries.get(&(page, gzip)) else {
        return failed(&"there is no place for it");
    };
    let mut place = place.lock().await;
    // Only now: who waited wants what there is after the wait.
    let Some(status) = cache.status.borrow().clone() else {
        return text(StatusCode::SERVICE_UNAVAILABLE, "no pass has ended yet");
    };
    request.extensions_mut().insert(Job {
        page,
        gzip,
        status: Arc::clone(&status),
        tags: cache.tags.clone(),
    });
    match place.take().filter(|entry| entry.tells_of(&status)) {
        Some(entry) => place.insert(entry).answer(&asked),
        None => match Entry::keep(&status, next.run(request).await).await {
            Ok(entry) => place.insert(entry).answer(&asked),
            Err(response) => *response,
        },
    }
}

impl Entry {
    fn tells_of(&self, status: &Arc<NodeStatus>) -> bool {
        std::ptr::eq(self.status.as_ptr(), Arc::as_ptr(status))
    }

    fn answer(&self, asked: &HeaderMap) -> Response {
        answer(&self.headers, &self.body, asked)
    }

    /// An entry from the answer of [`render`](super::render::render); an error as it is.
    async fn keep(status: &Arc<NodeStatus>, response: Response) -> Result<Self, Box<Response>> {
        if response.status() != StatusCode::OK {
            return Err(Box::new(response));
        }
        let (parts, body) = response.into_parts();
        match to_bytes(body, usize::MAX).await {
            Ok(body) => Ok(Self {
                status: Arc::downgrade(status),
                headers: parts.headers,
                body,
            }),
            Err(err) => Err(Box::new(failed(&err))),
        }
    }
}

/// The answer to a client with the headers `asked`: the page, or 304 if the client has it.
pub(crate) fn answer(headers: &HeaderMap, body: &Bytes, asked: &HeaderMap) -> Response {
    let mut headers = headers.clone();
    // Also with 304, where axum would say 0: it must be the length that 200 had (RFC 9110, 8.6).
    headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
    if matches(asked, headers.get(ETAG)) {
        return (StatusCode::NOT_MODIFIED, headers).into_response();
    }
    (headers, Body::from(body.clone())).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status() -> Arc<NodeStatus> {
        Arc::new(NodeStatus {
            node: None,
            version: "",
            started_ms: 0,
            observed_ms: 0,
            dry_run: false,
            declarations: crate::keep_warm::Freshness::NoCluster,
            declaring_pods: 0,
            volumes: None,
            processes: Vec::new(),
            holder_counts: crate::report::HolderCounts::NotYet,
            kept: Vec::new(),
            mounts: Vec::new(),
            stores: Vec::new(),
            gpus: Vec::new(),
            shortfalls: Vec::new(),
        })
    }

    #[tokio::test]
    async fn pages_of_older_passes_are_dropped_and_others_stay() {
        let latest = status();
        let (passes, watched) = watch::channel(Some(Arc::clone(&latest)));
        let cache = Arc::new(Cache::new(Endpoint::Objects, watched.clone()));
        let place = cache.entries.get(&(Page::Objects, false)).unwrap();
        let entry = Entry::keep(&latest, Response::new(Body::from("page"))).await;
        *place.lock().await = entry.ok();
        cache.drop_old();
        assert!(place.lock().await.is_some());
        let sweeping = tokio::spawn(sweep(vec![Arc::clone(&cache)], watched));
        passes.send_replace(Some(status()));
        drop(passes);
        sweeping.await.unwrap();
        assert!(place.lock().await.is_none());
    }
}
