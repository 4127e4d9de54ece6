//! Pages of the gateway itself: /metrics, /healthz, /readyz, /loads, /engines.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use tetris_service_kit::http::{NotReady, metrics_page, probe};

use crate::engines::EnginesPage;
use crate::loads::Origin;
use crate::metrics::Metrics;
use crate::proxy::Proxy;

/// Parts that the pages show.
#[derive(Clone, Debug)]
pub(crate) struct Pages {
    pub(crate) proxy: Proxy,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) origin: Origin,
    /// True while the gateway has functions and does not stop.
    pub(crate) ready: Arc<AtomicBool>,
}

pub(crate) fn router(pages: Pages) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/loads", get(loads))
        .route("/engines", get(engines))
        .route("/healthz", get(|| async { probe(Ok(())) }))
        .route("/readyz", get(ready))
        .with_state(pages)
}

async fn metrics(State(pages): State<Pages>) -> Response {
    pages.metrics.set_memory(pages.proxy.memory());
    metrics_page(pages.metrics.encode(&pages.proxy.routes()))
}

async fn loads(State(pages): State<Pages>) -> Response {
    let routes = pages.proxy.routes();
    let page = pages.origin.page(&routes, &pages.metrics);
    Json(page).into_response()
}

async fn engines(State(pages): State<Pages>) -> Response {
    let routes = pages.proxy.routes();
    let groups = routes.engine_groups().iter();
    Json(EnginesPage::new(groups.map(|group| group.page()))).into_response()
}

async fn ready(State(pages): State<Pages>) -> Response {
    if pages.ready.load(Ordering::Relaxed) {
        return probe(Ok(()));
    }
    let reason = "the functions are not known yet, or the gateway stops";
    probe(Err(NotReady::because(reason)))
}
