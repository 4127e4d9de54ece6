//! Pages of the node daemon over HTTP: health, metrics, status, and the inventory for placement.
//! Read-only.
//!
//! | path | answer |
//! |---|---|
//! | `/healthz` | 200 while the daemon's loop reports heartbeats, otherwise 503 and the reason |
//! | `/readyz` | 200 once a pass has ended and all stores can be used; otherwise 503 and the missing parts; `?brief=true` names no store |
//! | `/metrics` | OpenMetrics text |
//! | `/status` | the node at the end of the last pass, as JSON; `?models=true` adds every model |
//! | `/inventory` | models by store, and how much of each is here, as JSON; its shape is in [`inventory`] |
//! | `/inventory/objects` | the objects of each store, and its room, as JSON; its shape is in [`objects`] |
//!
//! | server | pages | for |
//! |---|---|---|
//! | `listen` | all | this machine alone: the configuration takes loopback addresses and no others |
//! | `network.metrics` | `/metrics` | everybody: no ids of tensors or models, no names of pods |
//! | `network.probes` | `/healthz`, `/readyz` | everybody, mainly the kubelet: `/readyz` names no store |
//! | `network.inventory` | `/status`, `/inventory`, `/inventory/objects` | accounts that are named, by their token, over TLS ([`Gate`]) |
//!
//! The daemon renders `/status` and the pages below `/inventory` once per pass and encoding, at the
//! first request, and drops them after the next pass. Each has an ETag over its content: pollers
//! send `If-None-Match` and get 304 while nothing changed. The end of the pass is not part of the
//! content; every answer has it in the header [`OBSERVED_HEADER`], 304 too.
//!
//! Every answer ends its connection: pollers are many, and connections that wait for the next poll
//! would fill the [`Limits`]. Each server has its own connections, and a newcomer is always
//! served: it displaces an older connection where all places are taken.

use std::future::Future;
use std::sync::Arc;

use axum::extract::{Query, State};
use axum::http::header::CONNECTION;
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::{from_fn_with_state, map_response};
use axum::response::Response;
use axum::routing::get;
use axum::{Router, handler::Handler as _};
use serde::Deserialize;
use tetris_service_kit::http::{self, Transport, metrics_page, probe, text};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tower_http::CompressionLevel;
use tower_http::compression::CompressionLayer;

use crate::metrics::Metrics;
use crate::report::NodeStatus;

pub use self::access::Gate;
pub use self::health::Health;
pub use self::limits::Limits;
pub use self::network::NetworkConfig;
pub(crate) use self::network::not_of_this_machine;
pub(crate) use self::pages::{answer, with_models};
pub use self::render::OBSERVED_HEADER;
pub use self::source::{PageSource, gated};

mod access;
mod health;
pub mod inventory;
mod limits;
pub(crate) mod negotiate;
mod network;
pub mod objects;
mod pages;
mod render;
mod source;
mod status;

/// Sources of the pages.
#[derive(Debug, Clone)]
pub struct HttpState {
    /// The daemon's metrics.
    pub metrics: Arc<Metrics>,
    /// The node at the end of the last pass; none before the first one ended.
    pub status: watch::Receiver<Option<Arc<NodeStatus>>>,
    /// State of the daemon's loop.
    pub health: Arc<Health>,
}

/// Service of which tokens for the inventory name a server
/// ([`audience`](tetris_service_kit::bound_tls::audience)).
pub const SERVICE: &str = "tetris-node";

/// Serves `router` until `stop` is done, within `limits`.
///
/// Then it answers earlier requests, for at most [`Limits::stop`].
pub async fn serve(
    listener: TcpListener,
    transport: impl Transport,
    router: Router,
    limits: Limits,
    stop: impl Future<Output = ()>,
) {
    http::serve(listener, transport, router, limits.connections(), stop).await;
}

/// The pages of one daemon, which its servers share: each page is made once for all.
#[derive(Debug, Clone)]
pub struct Pages {
    shared: HttpState,
    status: Arc<pages::Cache>,
    inventory: Arc<pages::Cache>,
    objects: Arc<pages::Cache>,
}

impl Pages {
    /// Pages over `shared`.
    pub fn new(shared: HttpState) -> Self {
        let cache = |page| Arc::new(pages::Cache::new(page, shared.status.clone()));
        Self {
            status: cache(pages::Endpoint::Status),
            inventory: cache(pages::Endpoint::Inventory),
            objects: cache(pages::Endpoint::Objects),
            shared,
        }
    }

    fn with_tensors(&self, router: Router<HttpState>) -> Router<HttpState> {
        let page = |cache: &Arc<pages::Cache>| {
            let cached = from_fn_with_state(Arc::clone(cache), pages::cached);
            get(render::render).route_layer(cached)
        };
        router
            .route("/status", page(&self.status))
            .route("/inventory", page(&self.inventory))
            .route("/inventory/objects", page(&self.objects))
    }

    fn finish(&self, router: Router<HttpState>, there_are: &'static str) -> Router {
        finish(router, there_are).with_state(self.shared.clone())
    }
}

impl PageSource for Pages {
    fn all(&self) -> Router {
        let router = self.with_tensors(with_metrics(with_probes(Router::new(), readyz)));
        self.finish(
            router,
            "/healthz, /readyz, /metrics, /status, /inventory and /inventory/objects",
        )
    }

    fn metrics(&self) -> Router {
        self.finish(with_metrics(Router::new()), "/metrics")
    }

    fn probes(&self) -> Router {
        let router = with_probes(Router::new(), readyz_in_brief);
        self.finish(router, "/healthz and /readyz")
    }

    fn tensors(&self) -> Router {
        let router = self.with_tensors(Router::new());
        self.finish(router, TENSORS)
    }

    fn limits(&self) -> Limits {
        Limits::default()
    }

    fn limits_of_probes(&self) -> Limits {
        Limits::of_probes()
    }

    /// Drops pages of earlier passes after each pass. Ends when there are no more.
    async fn sweep(&self) {
        let caches = [&self.status, &self.inventory, &self.objects].map(Arc::clone);
        pages::sweep(caches.into(), self.shared.status.clone()).await;
    }
}

/// Paths of the pages with ids of models and objects.
pub(crate) const TENSORS: &str = "/status, /inventory and /inventory/objects";

/// The router with answers to other paths and methods, which ends each connection with its answer.
pub(crate) fn finish<S: Clone + Send + Sync + 'static>(
    router: Router<S>,
    there_are: &'static str,
) -> Router<S> {
    router
        .fallback(async move || not_found(there_are))
        .method_not_allowed_fallback(not_allowed)
        .layer(map_response(close))
}

fn with_metrics(router: Router<HttpState>) -> Router<HttpState> {
    let gzip = CompressionLayer::new().quality(CompressionLevel::Fastest);
    router.route("/metrics", get(metrics.layer(gzip)))
}

fn with_probes<H, T>(router: Router<HttpState>, readyz: H) -> Router<HttpState>
where
    H: axum::handler::Handler<T, HttpState>,
    T: 'static,
{
    router
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
}

async fn healthz(State(shared): State<HttpState>) -> Response {
    probe(shared.health.check())
}

/// Query of `/readyz`.
#[derive(Debug, Deserialize)]
struct ReadyzQuery {
    #[serde(default)]
    brief: bool,
}

async fn readyz(State(shared): State<HttpState>, Query(query): Query<ReadyzQuery>) -> Response {
    let status = shared.status.borrow().clone();
    probe(if query.brief {
        health::ready_in_brief(&shared.health, status.as_deref())
    } else {
        health::ready(&shared.health, status.as_deref())
    })
}

async fn readyz_in_brief(State(shared): State<HttpState>) -> Response {
    let status = shared.status.borrow().clone();
    probe(health::ready_in_brief(&shared.health, status.as_deref()))
}

async fn metrics(State(shared): State<HttpState>) -> Response {
    let status = shared.status.borrow().clone();
    metrics_page(shared.metrics.encode(status))
}

fn not_found(there_are: &str) -> Response {
    let reason = format!("no such page; there are {there_are}");
    text(StatusCode::NOT_FOUND, reason)
}

async fn not_allowed() -> Response {
    text(
        StatusCode::METHOD_NOT_ALLOWED,
        "pages are read-only; use GET or HEAD",
    )
}

async fn close(mut response: Response) -> Response {
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(CONNECTION, close);
    response
}

fn failed(err: &dyn std::fmt::Display) -> Response {
    let reason = format!("the page could not be made: {err}");
    text(StatusCode::INTERNAL_SERVER_ERROR, reason)
}
