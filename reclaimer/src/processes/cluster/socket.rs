//! The Unix socket of this process: questions of `volumes` about pods and namespaces, and reports.
//!
//! Questions are for root and for this process's own user. Reports say no more than that a process
//! lives, so that all that reach the socket may send them. A message has limits of length and of
//! the time in which it arrives.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post, put};
use axum::{Extension, Json, Router};
use tetris_service_kit::http::text;
use tetris_service_kit::unix_http::Peer;

use super::reports::Reports;
use crate::csi::Namespaces;
use crate::process::Process;
use crate::processes::messages::{
    Asked, LivingNamespaces, NamespaceGone, NamespaceQuestion, PlaceOfPod, PodQuestion,
};
use crate::report::process_report::{ProcessReport, REPORT_BYTES};

/// Longest time for a message to arrive.
const ARRIVAL: Duration = Duration::from_secs(5);

/// Parts that the requests need.
#[derive(Debug, Clone)]
struct Parts {
    namespaces: Arc<dyn Namespaces>,
    reports: Arc<Reports>,
}

/// Router of the socket. Answers about namespaces come from `namespaces`; reports go to `reports`.
pub fn router(namespaces: Arc<dyn Namespaces>, reports: Arc<Reports>) -> Router {
    let questions = Router::new()
        .route("/pods/place", post(place))
        .route("/namespaces/gone", post(gone))
        .route("/namespaces/living", get(living))
        .layer(from_fn(of_root_alone));
    Router::new()
        .merge(questions)
        .route("/reports/{process}", put(report))
        .layer(from_fn(arrived))
        .with_state(Parts {
            namespaces,
            reports,
        })
}

/// Waits for the whole message.
async fn arrived(request: Request, next: Next) -> Response {
    let (head, body) = request.into_parts();
    match tokio::time::timeout(ARRIVAL, to_bytes(body, REPORT_BYTES)).await {
        Ok(Ok(message)) => {
            let request = Request::from_parts(head, Body::from(message));
            next.run(request).await
        }
        Ok(Err(error)) => {
            let reason = format!("expected a message of at most {REPORT_BYTES} bytes: {error}");
            text(StatusCode::PAYLOAD_TOO_LARGE, reason)
        }
        Err(_) => {
            let reason = format!("the message did not arrive within {} s", ARRIVAL.as_secs());
            text(StatusCode::REQUEST_TIMEOUT, reason)
        }
    }
}

async fn of_root_alone(Extension(peer): Extension<Peer>, request: Request, next: Next) -> Response {
    let euid = rustix::process::geteuid().as_raw();
    if peer.uid == 0 || peer.uid == euid {
        return next.run(request).await;
    }
    tracing::warn!(
        uid = peer.uid,
        pid = peer.pid,
        path = request.uri().path(),
        "refused: a process of another user asks about the cluster"
    );
    text(
        StatusCode::FORBIDDEN,
        format!("user {} may not ask; expected 0 or {euid}", peer.uid),
    )
}

async fn place(State(parts): State<Parts>, Json(pod): Json<PodQuestion>) -> Response {
    let answer = parts.namespaces.of_pod(&pod.into()).await;
    Json(Asked::<PlaceOfPod>::of(answer)).into_response()
}

async fn gone(State(parts): State<Parts>, Json(asked): Json<NamespaceQuestion>) -> Response {
    let answer = parts.namespaces.is_gone(&asked.name, &asked.uid).await;
    Json(Asked::<NamespaceGone>::of(answer)).into_response()
}

async fn living(State(parts): State<Parts>) -> Response {
    let uids = parts.namespaces.living().borrow().clone();
    Json(LivingNamespaces { uids }).into_response()
}

async fn report(
    State(parts): State<Parts>,
    Path(process): Path<Process>,
    Json(report): Json<ProcessReport>,
) -> Response {
    let is_known = matches!(process, Process::Volumes | Process::Mirror);
    if !is_known || report.process != process {
        let teller = report.process;
        let reason = format!(
            "report of {teller} at /reports/{process}; expected one of volumes or mirror at its own path"
        );
        return text(StatusCode::BAD_REQUEST, reason);
    }
    parts.reports.take(report);
    StatusCode::NO_CONTENT.into_response()
}
