//! Pages `/metrics`, `/healthz` and `/readyz`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use tetris_service_kit::http::{NotReady, metrics_page, probe, text};

use crate::metrics::Metrics;

/// State of the pages.
#[derive(Debug, Clone)]
pub struct Pages {
    /// Metrics of the scaler.
    pub metrics: Arc<Metrics>,
    /// True after the first pass; before that there is nothing to serve.
    pub ready: Arc<AtomicBool>,
}

/// Returns the router of the pages.
pub fn router(pages: Pages) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(async || probe(Ok(()))))
        .route("/readyz", get(ready))
        .fallback(async || {
            text(
                StatusCode::NOT_FOUND,
                "no such page; expected /healthz, /readyz or /metrics",
            )
        })
        .with_state(pages)
}

async fn ready(State(pages): State<Pages>) -> Response {
    let ready = pages.ready.load(Ordering::Relaxed);
    let missing = "no pass yet: the API server's lists are incomplete";
    probe(
        ready
            .then_some(())
            .ok_or_else(|| NotReady::because(missing)),
    )
}

async fn metrics(State(pages): State<Pages>) -> Response {
    metrics_page(pages.metrics.encode())
}
