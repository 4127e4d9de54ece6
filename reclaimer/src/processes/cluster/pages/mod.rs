//! The broker's pages, fetched over its socket for clients on the network.
//!
//! # Guarantees
//! - However many clients ask, and however slowly they read, pages take no more memory than the
//!   budgets, and the broker has one request of each page and encoding at a time.
//! - Every request is answered within its limit of time, with 503 and the reason where the broker is
//!   away, stopped, hangs or answers with something else than its pages.
//! - The broker may be in a pod's hands: its answers are bytes, of which nothing here is believed
//!   but the status and the headers that pages have.

mod budget;
mod fetch;
mod place;
mod probes;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use tetris_service_kit::http::text;
use tetris_service_kit::unix_http::UnixClient;

use super::reports::Reports;
use crate::http::negotiate::accepts_gzip;
use crate::http::{Limits, PageSource, TENSORS, answer, finish, with_models};
use budget::{Budget, Reserved};
use fetch::FetchError;
use place::{Got, Place};
use probes::Probes;

/// Limits of fetched pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageLimits {
    /// Longest time from a request for a page to its answer.
    pub page: Duration,
    /// Longest time from a request for metrics to its answer: shorter than Prometheus waits for one
    /// (10 s by default), so that it gets the reason.
    pub metrics: Duration,
    /// Longest time from a probe to its answer by the broker.
    pub probe: Duration,
    /// Largest page, in bytes. The objects of a full node are 36 MB.
    pub page_bytes: usize,
    /// Memory for all pages that are kept or that clients read, in bytes.
    pub pages_bytes: usize,
    /// Largest page of metrics, in bytes.
    pub metrics_bytes: usize,
    /// Memory for all pages of metrics, in bytes.
    pub all_metrics_bytes: usize,
    /// Time for which clients share a page of metrics.
    pub metrics_fresh: Duration,
}

impl Default for PageLimits {
    fn default() -> Self {
        Self {
            page: Duration::from_secs(20),
            metrics: Duration::from_secs(8),
            probe: Duration::from_secs(2),
            page_bytes: 64 << 20,
            pages_bytes: 128 << 20,
            metrics_bytes: 8 << 20,
            all_metrics_bytes: 48 << 20,
            metrics_fresh: Duration::from_secs(1),
        }
    }
}

/// Time between two looks for pages that no one asks for.
const SWEEP: Duration = Duration::from_secs(10);
/// Time to begin an answer that is there.
const SLACK: Duration = Duration::from_secs(1);

/// A page of the broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Page {
    Status,
    StatusWithModels,
    Inventory,
    Objects,
    Metrics,
}

impl Page {
    const ALL: [Self; 5] = [
        Self::Status,
        Self::StatusWithModels,
        Self::Inventory,
        Self::Objects,
        Self::Metrics,
    ];

    fn path(self) -> &'static str {
        match self {
            Self::Status => "/status",
            Self::StatusWithModels => "/status?models=true",
            Self::Inventory => "/inventory",
            Self::Objects => "/inventory/objects",
            Self::Metrics => "/metrics",
        }
    }
}

/// The pages of the broker. Clones share them.
#[derive(Debug, Clone)]
pub struct FetchedPages(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    broker: UnixClient,
    limits: PageLimits,
    places: BTreeMap<(Page, bool), Place>,
    pages: Budget,
    metrics: Budget,
    probes: Probes,
}

impl FetchedPages {
    /// Pages of the broker behind the socket at `broker`, and the health of the others by their
    /// `reports`.
    pub fn new(broker: &std::path::Path, reports: Arc<Reports>, limits: PageLimits) -> Self {
        let place = |page: Page, gzip| match page {
            Page::Metrics => Place::new(
                page.path(),
                gzip,
                limits.metrics_bytes,
                limits.metrics_fresh,
            ),
            _ => Place::new(page.path(), gzip, limits.page_bytes, Duration::ZERO),
        };
        let keys = Page::ALL
            .into_iter()
            .flat_map(|page| [(page, false), (page, true)]);
        Self(Arc::new(Shared {
            broker: UnixClient::new(broker, limits.page),
            limits,
            places: keys.map(|key| (key, place(key.0, key.1))).collect(),
            pages: Budget::new(limits.pages_bytes),
            metrics: Budget::new(limits.all_metrics_bytes),
            probes: Probes::new(UnixClient::new(broker, limits.probe), limits.probe, reports),
        }))
    }

    fn finish(&self, router: Router<Self>, there_are: &'static str) -> Router {
        finish(router, there_are).with_state(self.clone())
    }
}

impl Shared {
    async fn page(&self, page: Page, asked: &HeaderMap) -> Response {
        let key = (page, accepts_gzip(asked));
        let Some(place) = self.places.get(&key) else {
            return text(StatusCode::INTERNAL_SERVER_ERROR, "there is no such page");
        };
        let reserve = |bytes| self.reserve(page, bytes);
        let limit = match page {
            Page::Metrics => self.limits.metrics,
            _ => self.limits.page,
        };
        let got = place.get(&self.broker, asked, limit, reserve);
        match got.await {
            Ok(Got::Page { headers, body }) => answer(&headers, &body, asked),
            Ok(Got::Unchanged(headers)) => (StatusCode::NOT_MODIFIED, headers).into_response(),
            Ok(Got::Refused(status, reason)) => (status, Body::from(reason)).into_response(),
            Err(error) => text(StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
        }
    }

    /// Memory for a page. Pages that no client reads any more make room for it.
    fn reserve(&self, page: Page, bytes: usize) -> Result<Reserved, FetchError> {
        let is_metrics = page == Page::Metrics;
        let budget = if is_metrics {
            &self.metrics
        } else {
            &self.pages
        };
        let reserved = budget.reserve(bytes).or_else(|| {
            let kept = self.places.iter();
            let kept = kept.filter(|((kept, _), _)| (*kept == Page::Metrics) == is_metrics);
            kept.for_each(|(_, place)| place.drop_page());
            budget.reserve(bytes)
        });
        reserved.ok_or_else(|| FetchError::NoMemory(budget.bytes()))
    }
}

impl PageSource for FetchedPages {
    fn all(&self) -> Router {
        let router = with_probes(with_metrics(with_tensors(Router::new())));
        let router = router.route("/readyz", get(probes::readyz));
        let there_are = "/healthz, /healthz/broker, /healthz/volumes, /healthz/mirror, /readyz, /metrics, \
                         /status, /inventory and /inventory/objects";
        self.finish(router, there_are)
    }

    fn metrics(&self) -> Router {
        self.finish(with_metrics(Router::new()), "/metrics")
    }

    fn probes(&self) -> Router {
        let router = with_probes(Router::new());
        let router = router.route("/readyz", get(probes::readyz_in_brief));
        let there_are = "/healthz, /healthz/broker, /healthz/volumes, /healthz/mirror and /readyz";
        self.finish(router, there_are)
    }

    fn tensors(&self) -> Router {
        self.finish(with_tensors(Router::new()), TENSORS)
    }

    fn limits(&self) -> Limits {
        Limits::default().with_wait(self.0.limits.page + SLACK)
    }

    fn limits_of_probes(&self) -> Limits {
        Limits::of_probes().with_wait(self.0.limits.probe + SLACK)
    }

    async fn sweep(&self) {
        let mut ticks = tokio::time::interval(SWEEP);
        loop {
            ticks.tick().await;
            self.0.places.values().for_each(Place::drop_unused);
        }
    }
}

fn with_tensors(router: Router<FetchedPages>) -> Router<FetchedPages> {
    router
        .route("/status", get(status))
        .route("/inventory", get(inventory))
        .route("/inventory/objects", get(objects))
}

fn with_metrics(router: Router<FetchedPages>) -> Router<FetchedPages> {
    router.route("/metrics", get(metrics))
}

/// All probes but `/readyz`, of which there are two.
fn with_probes(router: Router<FetchedPages>) -> Router<FetchedPages> {
    router
        .route("/healthz", get(probes::healthz))
        .route("/healthz/broker", get(probes::broker))
        .route("/healthz/volumes", get(probes::volumes))
        .route("/healthz/mirror", get(probes::mirror))
}

async fn status(State(pages): State<FetchedPages>, request: Request) -> Response {
    match with_models(request.uri()) {
        Ok(true) => {
            pages
                .0
                .page(Page::StatusWithModels, request.headers())
                .await
        }
        Ok(false) => pages.0.page(Page::Status, request.headers()).await,
        Err(mistake) => text(StatusCode::BAD_REQUEST, mistake.to_string()),
    }
}

async fn inventory(State(pages): State<FetchedPages>, asked: HeaderMap) -> Response {
    pages.0.page(Page::Inventory, &asked).await
}

async fn objects(State(pages): State<FetchedPages>, asked: HeaderMap) -> Response {
    pages.0.page(Page::Objects, &asked).await
}

async fn metrics(State(pages): State<FetchedPages>, asked: HeaderMap) -> Response {
    pages.0.page(Page::Metrics, &asked).await
}
