//! Pages of the node daemon over HTTP: health, metrics, status, and the inventory for placement.
//! Read-only.
//!
//! | path | answer |
//! |---|---|
//! | `/healthz` | 200 while the daemon's loop reports heartbeats, otherwise 503 and the reason |
//! | `/readyz` | 200 once a pass has ended, all stores can be used, and the kubelet knows the CSI driver if there is one; otherwise 503 and the missing parts |
//! | `/metrics` | OpenMetrics text |
//! | `/status` | the node at the end of the last pass, as JSON; `?models=true` adds every model |
//! | `/inventory` | models by store, and how much of each is here, as JSON; its shape is in [`inventory`] |
//! | `/inventory/objects` | the objects of each store, and its room, as JSON; its shape is in [`objects`] |
//!
//! The daemon renders `/status` and the pages below `/inventory` once per pass and encoding, at the
//! first request, and drops them after the next pass. Each has an ETag over its content: pollers
//! send `If-None-Match` and get 304 while nothing changed. The end of the pass is not part of the
//! content; every answer has it in the header [`OBSERVED_HEADER`], 304 too.
//!
//! Every answer ends its connection: pollers are many, and connections that wait for the next poll
//! would fill the [`Limits`].

use std::future::Future;
use std::sync::Arc;

use axum::extract::State;
use axum::http::header::CONNECTION;
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::{from_fn_with_state, map_response};
use axum::response::Response;
use axum::routing::get;
use axum::{Router, handler::Handler as _};
use tetris_service_kit::http::{self, metrics_page, probe, text};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tower_http::CompressionLevel;
use tower_http::compression::CompressionLayer;

use crate::metrics::Metrics;
use crate::report::NodeStatus;

pub use self::health::{DriverState, Health};
pub use self::limits::Limits;
pub use self::pages::OBSERVED_HEADER;

mod health;
pub mod inventory;
mod limits;
mod negotiate;
pub mod objects;
mod pages;
mod render;
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

/// Serves until `stop` is done, within [`Limits::default`].
///
/// Then it answers earlier requests, for at most [`Limits::stop`].
pub async fn serve(listener: TcpListener, shared: HttpState, stop: impl Future<Output = ()>) {
    serve_within(Limits::default(), listener, shared, stop).await;
}

/// [`serve`] with other limits.
pub async fn serve_within(
    limits: Limits,
    listener: TcpListener,
    shared: HttpState,
    stop: impl Future<Output = ()>,
) {
    let passes = shared.status.clone();
    let (router, caches) = routes(shared);
    let serving = http::serve(
        listener,
        limits.transport(),
        router,
        limits.connections(),
        stop,
    );
    let sweeping = async {
        pages::sweep(caches, passes).await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = sweeping => {}
        () = serving => {}
    }
}

/// The pages. For a server of one's own, and for tests.
pub fn router(shared: HttpState) -> Router {
    routes(shared).0
}

/// The pages and their caches.
fn routes(shared: HttpState) -> (Router, Vec<Arc<pages::Cache>>) {
    let gzip = CompressionLayer::new().quality(CompressionLevel::Fastest);
    let mut caches = Vec::new();
    let mut page = |page: pages::Endpoint| {
        let cache = Arc::new(pages::Cache::new(page, shared.status.clone()));
        caches.push(Arc::clone(&cache));
        get(render::render).route_layer(from_fn_with_state(cache, pages::cached))
    };
    let router = Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics.layer(gzip)))
        .route("/status", page(pages::Endpoint::Status))
        .route("/inventory", page(pages::Endpoint::Inventory))
        .route("/inventory/objects", page(pages::Endpoint::Objects))
        .fallback(not_found)
        .method_not_allowed_fallback(not_allowed)
        .layer(map_response(close))
        .with_state(shared);
    (router, caches)
}

async fn healthz(State(shared): State<HttpState>) -> Response {
    probe(shared.health.check())
}

async fn readyz(State(shared): State<HttpState>) -> Response {
    let status = shared.status.borrow().clone();
    probe(health::ready(&shared.health, status.as_deref()))
}

async fn metrics(State(shared): State<HttpState>) -> Response {
    let status = shared.status.borrow().clone();
    metrics_page(shared.metrics.encode(status))
}

async fn not_found() -> Response {
    text(
        StatusCode::NOT_FOUND,
        "no such page; there are /healthz, /readyz, /metrics, /status, /inventory and /inventory/objects",
    )
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
