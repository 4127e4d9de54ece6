//! HTTP server of `/metrics`, `/healthz` and `/readyz`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::metrics::{self, Metrics};

/// Time that clients have to read their answers once the server stops.
const FAREWELL: Duration = Duration::from_secs(5);

/// State of the pages.
#[derive(Debug, Clone)]
pub struct Pages {
    /// Metrics of the scaler.
    pub metrics: Arc<Metrics>,
    /// True after the first pass; before that there is nothing to serve.
    pub ready: Arc<AtomicBool>,
}

/// Serves `router` until `stopped` is true.
pub async fn serve(listener: TcpListener, router: Router, stopped: watch::Receiver<bool>) {
    let stop = until(stopped.clone());
    let serving = axum::serve(listener, router).with_graceful_shutdown(stop);
    let farewell = async {
        until(stopped).await;
        tokio::time::sleep(FAREWELL).await;
    };
    tokio::select! {
        // The server ends only with its listener.
        served = serving => drop(served),
        () = farewell => tracing::debug!("clients of the pages were too slow"),
    }
}

/// Completes once `stopped` is true or its sender is gone.
pub async fn until(mut stopped: watch::Receiver<bool>) {
    drop(stopped.wait_for(|stop| *stop).await);
}

/// Returns the router of the pages.
pub fn router(pages: Pages) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(ready))
        .fallback(async || {
            (
                StatusCode::NOT_FOUND,
                "no such page; expected /healthz, /readyz or /metrics\n",
            )
        })
        .with_state(pages)
}

async fn ready(State(pages): State<Pages>) -> Response {
    if pages.ready.load(Ordering::Relaxed) {
        return "ok\n".into_response();
    }
    let reason = "no pass yet: the API server's lists are incomplete\n";
    (StatusCode::SERVICE_UNAVAILABLE, reason).into_response()
}

async fn metrics(State(pages): State<Pages>) -> Response {
    match pages.metrics.encode() {
        Ok(body) => ([(CONTENT_TYPE, metrics::CONTENT_TYPE)], body).into_response(),
        Err(error) => {
            let reason = format!("metrics: {error}\n");
            (StatusCode::INTERNAL_SERVER_ERROR, reason).into_response()
        }
    }
}
