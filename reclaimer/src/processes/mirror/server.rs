//! The process's socket: the broker's orders, and the state of the mirror for everybody who
//! reaches it.
//!
//! Orders wait for the mirror's thread within limits of time, in their own threads. So the
//! socket answers while the driver hangs.

use std::path::{Component, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{DefaultBodyLimit, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post, put};
use axum::{Extension, Json, Router};
use rustix::process::geteuid;
use tetris_service_kit::http::{probe, text};
use tetris_service_kit::unix_http::Peer;
use tetris_store_layout::StoreId;

use super::status::MirrorStatus;
use crate::field_error::FieldError;
use crate::gpu_mirror::{GpuMirrorConfig, GpuMirrorReferences, GpuMirrorThread, GpuMirrorView};
use crate::processes::messages::{
    MirrorServes, MirrorStore, MirrorStores, ReleaseReferences, ReleasedReferences,
};
use crate::room::DaemonReferences as _;
use crate::store::OpenStore;

/// Longest request in bytes: thousands of stores.
const REQUEST_BYTES: usize = 1 << 20;
/// Longest name of a store in bytes: it is the name of its socket in `gpu_mirror.socket_dir`.
const NAME_BYTES: usize = 200;

/// State of the process behind the socket.
pub(super) struct Served {
    /// Name of this run of the process.
    process: String,
    /// The table at the start. The broker sends what changes.
    table: GpuMirrorConfig,
    thread: Mutex<GpuMirrorThread>,
    references: GpuMirrorReferences,
    view: Arc<GpuMirrorView>,
}

impl Served {
    pub(super) fn new(process: String, table: GpuMirrorConfig, thread: GpuMirrorThread) -> Self {
        Self {
            process,
            table,
            references: thread.references(),
            view: Arc::clone(thread.view()),
            thread: Mutex::new(thread),
        }
    }

    fn serve(&self, stores: &[OpenStore], table: &GpuMirrorConfig) -> MirrorServes {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        thread.serve(stores, table);
        drop(thread);
        MirrorServes {
            not_open_because: self.view.reason(),
        }
    }
}

/// Pages and orders of the process.
pub(super) fn router(served: Arc<Served>) -> Router {
    Router::new()
        .route("/healthz", get(|| async { probe(Ok(())) }))
        .route("/status", get(status))
        .route("/residents", get(residents))
        .route("/stores", put(stores))
        .route("/references/release", post(release))
        .layer(DefaultBodyLimit::max(REQUEST_BYTES))
        .with_state(served)
}

async fn status(State(served): State<Arc<Served>>) -> Response {
    blocking(move || MirrorStatus {
        process: served.process.clone(),
        mirror: served.view.status(),
    })
    .await
}

async fn residents(State(served): State<Arc<Served>>) -> Response {
    blocking(move || served.view.residents().to_vec()).await
}

async fn stores(
    State(served): State<Arc<Served>>,
    Extension(peer): Extension<Peer>,
    Json(message): Json<MirrorStores>,
) -> Response {
    if let Some(refused) = refuse(peer) {
        return refused;
    }
    match orders(&message, &served.table) {
        Ok((stores, table)) => blocking(move || served.serve(&stores, &table)).await,
        Err(mistake) => text(StatusCode::BAD_REQUEST, mistake.to_string()),
    }
}

async fn release(
    State(served): State<Arc<Served>>,
    Extension(peer): Extension<Peer>,
    Json(message): Json<ReleaseReferences>,
) -> Response {
    if let Some(refused) = refuse(peer) {
        return refused;
    }
    blocking(move || ReleasedReferences {
        bytes: served.references.release(&message.stores),
    })
    .await
}

/// The answer to a process of another user: orders come from the broker, which has this one's.
fn refuse(peer: Peer) -> Option<Response> {
    let uid = geteuid().as_raw();
    (peer.uid != uid && peer.uid != 0).then(|| {
        let reason = format!(
            "expected a process of uid {uid}, found one of uid {}; run the broker as the user of the GPU mirror",
            peer.uid
        );
        text(StatusCode::FORBIDDEN, reason)
    })
}

async fn blocking<A: serde::Serialize + Send + 'static>(
    work: impl FnOnce() -> A + Send + 'static,
) -> Response {
    match tokio::task::spawn_blocking(work).await {
        Ok(answer) => Json(answer).into_response(),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

/// A mistake in an order of the broker.
#[derive(Debug, thiserror::Error)]
enum OrderError {
    #[error(transparent)]
    Table(#[from] FieldError),
    #[error("name of a store: expected 1 to {NAME_BYTES} bytes without a slash, found {0:?}")]
    Name(String),
    #[error("directory of store {name:?}: expected an absolute path, found `{}`", root.display())]
    Directory { name: String, root: PathBuf },
    #[error("identity of store {name:?}: expected 32 hexadecimal digits, found {id:?}")]
    Identity { name: String, id: String },
}

/// Stores of a message, and the table with its changeable fields.
fn orders(
    message: &MirrorStores,
    table: &GpuMirrorConfig,
) -> Result<(Vec<OpenStore>, GpuMirrorConfig), OrderError> {
    let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let table = GpuMirrorConfig {
        store_bytes: message.store_bytes,
        connections: count(message.connections),
        connections_per_user: count(message.connections_per_user),
        ..table.clone()
    };
    if let Some(mistake) = table.mistakes().into_iter().next() {
        return Err(mistake.into());
    }
    let stores: Result<Vec<_>, _> = message.stores.iter().map(open_store).collect();
    Ok((stores?, table))
}

fn open_store(store: &MirrorStore) -> Result<OpenStore, OrderError> {
    let MirrorStore { name, root, id } = store.clone();
    let is_name = !name.is_empty()
        && name.len() <= NAME_BYTES
        && !name.contains(['/', '\0'])
        && !matches!(name.as_str(), "." | "..");
    if !is_name {
        return Err(OrderError::Name(name));
    }
    let has_parents = root.components().any(|part| part == Component::ParentDir);
    if !root.is_absolute() || has_parents {
        return Err(OrderError::Directory { name, root });
    }
    let Some(id) = store_id(&id) else {
        return Err(OrderError::Identity { name, id });
    };
    Ok(OpenStore {
        objects: root.join("objects"),
        name,
        root,
        id,
    })
}

fn store_id(text: &str) -> Option<StoreId> {
    // A sign would be part of a number, too.
    let is_hex = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let digits = text.as_bytes().chunks(2).filter(|_| is_hex);
    let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let bytes: Vec<u8> = digits.map(byte).collect::<Option<_>>()?;
    Some(StoreId(bytes.try_into().ok()?))
}
