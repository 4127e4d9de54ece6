//! Servers of reviews and pages.
//!
//! | path | what |
//! |---|---|
//! | `POST /mutate` | reviews of pods that are labeled themselves |
//! | `POST /mutate/namespace` | reviews of pods of labeled namespaces |
//! | `POST /mutate/namespace/python` | the same of namespaces with the label `python` |
//! | `POST /mutate/placement` | reviews of pods that name their model, of namespaces with the label `tetris.dev/placement` |
//! | `/healthz` | 200 while the process answers |
//! | `/readyz` | 200 while a certificate is served that the API server was given to trust, otherwise 503 and what is missing |
//! | `/metrics` | OpenMetrics text |
//!
//! Reviews, health and readiness are served over HTTPS; health, readiness and metrics over HTTP, for probes and scrapes.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Router, middleware};
use tetris_service_kit::http::{metrics_page, probe, text};

use crate::inject::{Options, Scope};
use crate::metrics::Metrics;
use crate::readiness::Readiness;

mod limits;
mod mutate;
mod tls;

pub use limits::Limits;
pub use tls::Tls;

/// Path of reviews of pods that are labeled themselves.
pub const POD_PATH: &str = "/mutate";
/// Path of reviews of pods of labeled namespaces.
pub const NAMESPACE_PATH: &str = "/mutate/namespace";
/// Path for pods of namespaces with the label `python`.
pub const PYTHON_NAMESPACE_PATH: &str = "/mutate/namespace/python";

/// Path for pods that name their model.
pub const PLACEMENT_PATH: &str = "/mutate/placement";

/// State that answers are made from.
#[derive(Debug, Clone)]
pub struct Shared {
    /// Settings of the injection.
    pub options: Arc<Options>,
    /// The webhook's metrics.
    pub metrics: Arc<Metrics>,
    /// Readiness of this replica.
    pub readiness: Arc<Readiness>,
}

/// Returns the router of reviews and probes, for HTTPS.
pub fn reviews(shared: Shared, limits: Limits) -> Router {
    let review =
        |scope| post(async move |state, turn, body| mutate::mutate(state, scope, turn, body).await);
    let router = Router::new()
        .route(POD_PATH, review(Scope::Pod))
        .route(NAMESPACE_PATH, review(Scope::Namespace))
        .route(PYTHON_NAMESPACE_PATH, review(Scope::PythonNamespace))
        .route(PLACEMENT_PATH, review(Scope::Placement));
    finish(probes(router), shared, limits)
}

/// Returns the router of metrics and probes, for HTTP.
pub fn pages(shared: Shared, limits: Limits) -> Router {
    let router = Router::new().route("/metrics", get(metrics));
    finish(probes(router), shared, limits)
}

fn probes(router: Router<Shared>) -> Router<Shared> {
    router
        .route("/healthz", get(async || probe(Ok(()))))
        .route("/readyz", get(readyz))
}

fn finish(router: Router<Shared>, shared: Shared, limits: Limits) -> Router {
    router
        .fallback(not_found)
        .method_not_allowed_fallback(not_allowed)
        .layer(middleware::from_fn_with_state(
            limits::Bounds::new(&limits),
            limits::bound,
        ))
        .layer(middleware::from_fn_with_state(
            shared.clone(),
            limits::close_when_stopping,
        ))
        .layer(axum::extract::DefaultBodyLimit::max(limits.body_bytes))
        .with_state(shared)
}

async fn readyz(State(shared): State<Shared>) -> Response {
    probe(shared.readiness.check())
}

async fn metrics(State(shared): State<Shared>) -> Response {
    metrics_page(shared.metrics.encode())
}

async fn not_found() -> Response {
    let pages = format!(
        "no such page; there are {POD_PATH}, {NAMESPACE_PATH}, /healthz, /readyz and, over HTTP, /metrics"
    );
    text(StatusCode::NOT_FOUND, pages)
}

async fn not_allowed() -> Response {
    let methods = "not with this method; POST reviews, GET all else";
    text(StatusCode::METHOD_NOT_ALLOWED, methods)
}
