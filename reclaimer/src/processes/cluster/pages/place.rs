//! One page in one encoding: fetched in turns, and kept for clients that come at the same time.
//!
//! One fetch at a time is under way for each place, so their number is bounded. A client shares the
//! answer to a fetch that began after the client's request: however many ask at once, the broker
//! gets two requests. Later ones ask the broker only if the page's tag is still the same.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::header::{ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use tetris_service_kit::unix_http::{UnixClient, UnixHttpError};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::budget::Reserved;
use super::fetch::{FetchError, Fetched, Wanted, fetch};
use crate::http::OBSERVED_HEADER;

/// Time for which the page of a place is kept that no one asks for.
const KEPT: Duration = Duration::from_secs(30);

/// Answer for one client.
#[derive(Debug, Clone)]
pub(super) enum Got {
    /// The page.
    Page {
        /// Headers of the answer.
        headers: HeaderMap,
        /// Its bytes, shared with other clients.
        body: Bytes,
    },
    /// The client has the page already.
    Unchanged(HeaderMap),
    /// There is no page; the broker's reason.
    Refused(StatusCode, Bytes),
}

/// A page in one encoding.
#[derive(Debug)]
pub(super) struct Place {
    path: &'static str,
    gzip: bool,
    /// Largest page, in bytes.
    most: usize,
    /// Age at which an answer is still shared.
    fresh_for: Duration,
    latest: Mutex<Latest>,
}

#[derive(Debug, Default)]
struct Latest {
    /// Begin of the latest fetch, and its result.
    outcome: Option<(Instant, Result<Got, Arc<FetchError>>)>,
    /// Time at which a client last asked.
    asked: Option<Instant>,
}

impl Place {
    /// A place for the page at `path`.
    pub(super) fn new(path: &'static str, gzip: bool, most: usize, fresh_for: Duration) -> Self {
        Self {
            path,
            gzip,
            most,
            fresh_for,
            latest: Mutex::default(),
        }
    }

    /// Gets the page for a client with these headers, within `limit`.
    pub(super) async fn get(
        &self,
        client: &UnixClient,
        asked: &HeaderMap,
        limit: Duration,
        reserve: impl FnMut(usize) -> Result<Reserved, FetchError>,
    ) -> Result<Got, Arc<FetchError>> {
        let got = tokio::time::timeout(limit, self.in_turn(client, asked, reserve)).await;
        got.unwrap_or_else(|_| {
            let path = client.path().to_owned();
            let too_late = UnixHttpError::TooLate { path, limit };
            Err(Arc::new(too_late.into()))
        })
    }

    async fn in_turn(
        &self,
        client: &UnixClient,
        asked: &HeaderMap,
        mut reserve: impl FnMut(usize) -> Result<Reserved, FetchError>,
    ) -> Result<Got, Arc<FetchError>> {
        let arrived = Instant::now();
        let mut latest = self.latest.lock().await;
        latest.asked = Some(arrived);
        if let Some(shared) = latest.shared_with(arrived, self.fresh_for) {
            return shared;
        }
        let known = latest.tag().cloned();
        let wanted = Wanted {
            path: self.path,
            gzip: self.gzip,
            tags: known.clone().or_else(|| asked.get(IF_NONE_MATCH).cloned()),
            most: self.most,
        };
        let began = Instant::now();
        let fetched = fetch(client, &wanted, |bytes| {
            reserve(bytes).or_else(|_| {
                // The page that is about to be replaced.
                latest.outcome = None;
                reserve(bytes)
            })
        });
        let got = match fetched.await {
            Ok(Fetched {
                status: StatusCode::NOT_MODIFIED,
                headers,
                ..
            }) => match latest.observed(&headers) {
                Some(page) => Ok(page),
                // The client's own tag, which means nothing to others.
                None => return Ok(Got::Unchanged(headers)),
            },
            Ok(Fetched {
                status: StatusCode::OK,
                headers,
                body,
            }) => Ok(Got::Page { headers, body }),
            Ok(Fetched { status, body, .. }) => Ok(Got::Refused(status, body)),
            Err(error) => Err(Arc::new(error)),
        };
        latest.outcome = Some((began, got.clone()));
        got
    }

    /// Drops the page, if no fetch is under way.
    pub(super) fn drop_page(&self) {
        if let Ok(mut latest) = self.latest.try_lock() {
            latest.outcome = None;
        }
    }

    /// Drops a page that no one asks for.
    pub(super) fn drop_unused(&self) {
        if let Ok(mut latest) = self.latest.try_lock()
            && latest.asked.is_none_or(|asked| asked.elapsed() > KEPT)
        {
            latest.outcome = None;
        }
    }
}

impl Latest {
    /// The answer to a fetch that began after a client had arrived. One that is a bit older is
    /// shared if it has a page.
    fn shared_with(
        &self,
        arrived: Instant,
        fresh_for: Duration,
    ) -> Option<Result<Got, Arc<FetchError>>> {
        let (began, got) = self.outcome.as_ref()?;
        let is_page = matches!(got, Ok(Got::Page { .. }));
        let is_fresh = is_page && arrived.saturating_duration_since(*began) < fresh_for;
        (*began >= arrived || is_fresh).then(|| got.clone())
    }

    fn tag(&self) -> Option<&HeaderValue> {
        match &self.outcome {
            Some((_, Ok(Got::Page { headers, .. }))) => headers.get(ETAG),
            _ => None,
        }
    }

    /// The kept page, observed at another time.
    fn observed(&mut self, unchanged: &HeaderMap) -> Option<Got> {
        let Some((_, Ok(Got::Page { headers, body }))) = &self.outcome else {
            return None;
        };
        let (mut headers, body) = (headers.clone(), body.clone());
        headers.get(ETAG)?;
        if let Some(observed) = unchanged.get(OBSERVED_HEADER) {
            headers.insert(HeaderName::from_static(OBSERVED_HEADER), observed.clone());
        }
        Some(Got::Page { headers, body })
    }
}
