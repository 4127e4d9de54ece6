//! `/metrics`, `/healthz` and `/readyz`.

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

/// How long answers may take to be read once the server stops.
const FAREWELL: Duration = Duration::from_secs(5);

/// What the pages are made of.
#[derive(Debug, Clone)]
pub struct Pages {
    /// The scaler's metrics.
    pub metrics: Arc<Metrics>,
    /// Whether a pass has been made: what is served before that is nothing.
    pub ready: Arc<AtomicBool>,
}

/// Serves `router` until `stopped` says so.
pub async fn serve(listener: TcpListener, router: Router, stopped: watch::Receiver<bool>) {
    let stop = until(stopped.clone());
    let serving = axum::serve(listener, router).with_graceful_shutdown(stop);
    let farewell = async {
        until(stopped).await;
        tokio::time::sleep(FAREWELL).await;
    };
    tokio::select! {
        // It ends with the listener's life only.
        served = serving => drop(served),
        () = farewell => tracing::debug!("clients of the pages were too slow"),
    }
}

/// Done when `stopped` says so, or nobody can say it any more.
pub async fn until(mut stopped: watch::Receiver<bool>) {
    drop(stopped.wait_for(|stop| *stop).await);
}

/// The pages.
pub fn router(pages: Pages) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(ready))
        .fallback(async || {
            (
                StatusCode::NOT_FOUND,
                "there are /healthz, /readyz and /metrics\n",
            )
        })
        .with_state(pages)
}

async fn ready(State(pages): State<Pages>) -> Response {
    if pages.ready.load(Ordering::Relaxed) {
        return "ok\n".into_response();
    }
    let reason = "no pass yet: the lists of the API server are not complete\n";
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
