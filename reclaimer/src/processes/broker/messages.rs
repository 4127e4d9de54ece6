//! Messages that the broker takes over its socket.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, sync_channel};
use std::time::Duration;

use axum::body::{Bytes, to_bytes};
use axum::extract::{DefaultBodyLimit, Path, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{post, put};
use axum::{Extension, Json, Router};
use serde::de::DeserializeOwned;
use tetris_service_kit::http::text;
use tetris_service_kit::unix_http::Peer;
use tokio::sync::watch;

use super::{Declared, ReceivedReports};
use crate::csi::{OwnStore, PerNamespace};
use crate::engine::commands::Command;
use crate::keep_warm::WarmSet;
use crate::metrics::Metrics;
use crate::models::{KeptModels, ModelQuestion};
use crate::process::Process;
use crate::processes::messages::{DECLARATIONS_BYTES, Declarations, RemoveStore, RemovedStore};
use crate::report::process_report::{ProcessReport, REPORT_BYTES};
use crate::store::StoreConfig;

/// Longest time for a message to arrive.
const ARRIVAL: Duration = Duration::from_secs(5);
/// Maximum length of other messages, in bytes.
const MESSAGE_BYTES: usize = 64 << 10;
/// Longest wait for a store's removal: a pass may be under way.
const REMOVAL_WAIT: Duration = Duration::from_mins(2);

/// Receivers of the messages.
#[derive(Debug, Clone)]
pub(crate) struct MessageState {
    pub(crate) declared: Arc<Declared>,
    pub(crate) reports: Arc<ReceivedReports>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) commands: Sender<Command>,
    /// The rule of namespaces' stores, if there is one.
    pub(crate) rule: watch::Receiver<Option<PerNamespace>>,
    pub(crate) models: KeptModels,
}

/// Router of the messages.
pub(crate) fn router(state: MessageState) -> Router {
    Router::new()
        .route("/declarations", put(declarations))
        .route("/reports/{process}", put(report))
        .route("/stores/removal", post(remove))
        .route("/models/state", post(model_state))
        // Each handler has its own limit.
        .layer(DefaultBodyLimit::disable())
        .with_state(state)
}

async fn declarations(State(state): State<MessageState>, request: Request) -> Response {
    let body = match body_of(request, DECLARATIONS_BYTES).await {
        Ok(body) => body,
        Err(refusal) => return *refusal,
    };
    let read = tokio::task::spawn_blocking(move || {
        let message: Declarations = read(&body)?;
        WarmSet::try_from(message).map_err(|error| Box::new(refused(error.to_string())))
    });
    match read.await {
        Ok(Ok(set)) => {
            state.declared.take(set);
            StatusCode::NO_CONTENT.into_response()
        }
        Ok(Err(refusal)) => *refusal,
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

async fn report(
    State(state): State<MessageState>,
    Path(process): Path<Process>,
    request: Request,
) -> Response {
    let body = body_of(request, REPORT_BYTES).await;
    let report: ProcessReport = match body.and_then(|body| read(&body)) {
        Ok(report) => report,
        Err(refusal) => return *refusal,
    };
    if report.process != process || process == Process::Broker {
        let teller = report.process;
        return refused(format!(
            "expected a report of `{process}`, found `{teller}`"
        ));
    }
    for (class, errors) in state.reports.take(report) {
        state.metrics.errors_elsewhere(class, errors);
    }
    StatusCode::NO_CONTENT.into_response()
}

async fn remove(
    State(state): State<MessageState>,
    Extension(peer): Extension<Peer>,
    request: Request,
) -> Response {
    if peer.uid != 0 {
        let reason = format!("only root has stores removed; this is uid {}", peer.uid);
        return text(StatusCode::FORBIDDEN, reason);
    }
    let body = body_of(request, MESSAGE_BYTES).await;
    let order: RemoveStore = match body.and_then(|body| read(&body)) {
        Ok(order) => order,
        Err(refusal) => return *refusal,
    };
    let rule = state.rule.borrow().clone();
    let store = rule.and_then(|rule| OwnStore::of_directory(&rule, &order.directory));
    let Some(own) = store else {
        let directory = order.directory;
        let expected = "expected the directory of a namespace's store (`csi.per_namespace.path`)";
        return refused(format!("{expected}, found {directory:?}"));
    };
    let removed = tokio::task::spawn_blocking(move || removal(&state.commands, own.config));
    match removed.await {
        Ok(removed) => Json(removed).into_response(),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

async fn model_state(State(state): State<MessageState>, request: Request) -> Response {
    let body = body_of(request, MESSAGE_BYTES).await;
    let question: ModelQuestion = match body.and_then(|body| read(&body)) {
        Ok(question) => question,
        Err(refusal) => return *refusal,
    };
    match question.key() {
        Some(key) => Json(state.models.state(&key)).into_response(),
        None => refused(format!(
            "expected a model in a trust domain of pods, found {question:?}"
        )),
    }
}

fn removal(commands: &Sender<Command>, store: StoreConfig) -> RemovedStore {
    let failed = |reason: &str| RemovedStore::Failed {
        reason: reason.to_owned(),
    };
    let (done, removed) = sync_channel(1);
    if commands.send(Command::Remove(store, done)).is_err() {
        return failed("the broker stops");
    }
    match removed.recv_timeout(REMOVAL_WAIT) {
        Ok(removed) => removed.into(),
        Err(RecvTimeoutError::Timeout) => failed("the broker is busy"),
        Err(RecvTimeoutError::Disconnected) => failed("the broker stops"),
    }
}

/// The whole message, of at most `most` bytes.
async fn body_of(request: Request, most: usize) -> Result<Bytes, Box<Response>> {
    let failed = |status, reason: String| Box::new(text(status, reason));
    match tokio::time::timeout(ARRIVAL, to_bytes(request.into_body(), most)).await {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(error)) => {
            let reason = format!("expected a message of at most {most} bytes: {error}");
            Err(failed(StatusCode::PAYLOAD_TOO_LARGE, reason))
        }
        Err(_) => {
            let reason = format!("the message did not arrive within {} s", ARRIVAL.as_secs());
            Err(failed(StatusCode::REQUEST_TIMEOUT, reason))
        }
    }
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Box<Response>> {
    serde_json::from_slice(body)
        .map_err(|error| Box::new(refused(format!("not the expected message: {error}"))))
}

fn refused(reason: String) -> Response {
    text(StatusCode::BAD_REQUEST, reason)
}
