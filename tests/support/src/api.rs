//! An API server with namespaces, of which their metadata is all there is, and pods.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use serde_json::{Value, json};
use tokio::sync::watch;

/// The identifier of every pod that no test has given another one.
pub const POD_UID: &str = "1a2b";

/// The API server. A namespace is there once someone asks for it, until it is removed. Clones
/// share it.
#[derive(Clone)]
pub struct Api {
    state: Arc<Mutex<Objects>>,
    /// The version that watches have seen.
    told: watch::Sender<u64>,
}

#[derive(Default)]
struct Objects {
    version: u64,
    namespaces: BTreeMap<String, String>,
    /// Number of times that each namespace was made.
    made: BTreeMap<String, u64>,
    removed: BTreeSet<String>,
    pods: BTreeMap<(String, String), String>,
    /// Pods with their own users.
    own_users: BTreeSet<(String, String)>,
    /// Pods of nodes, with their annotations.
    running: Vec<Value>,
    events: Vec<(u64, Kind, Value)>,
    /// Account and audience of each token.
    tokens: BTreeMap<String, (String, String)>,
    is_down: bool,
    is_silent: bool,
}

/// Kind of the object that an event is about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Namespace,
    Pod,
}

/// The identifier of a namespace that was made so often.
pub fn uid_of(name: &str, times: u64) -> String {
    let name = name.bytes().fold(0xcbf2_9ce4_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    format!("{name:08x}-0000-4000-8000-{times:012x}")
}

impl Objects {
    fn event(&mut self, kind: &str, name: &str, uid: &str) {
        self.version += 1;
        let object = metadata(name, uid, self.version);
        let event = json!({"type": kind, "object": object});
        self.events.push((self.version, Kind::Namespace, event));
    }

    fn make(&mut self, name: &str) -> String {
        let times = self.made.entry(name.to_owned()).or_default();
        *times += 1;
        let uid = uid_of(name, *times);
        self.removed.remove(name);
        self.namespaces.insert(name.to_owned(), uid.clone());
        self.event("ADDED", name, &uid);
        uid
    }
}

impl Api {
    #[expect(clippy::new_without_default, reason = "the lint is about libraries")]
    pub fn new() -> Self {
        Self {
            state: Arc::default(),
            told: watch::channel(0).0,
        }
    }

    /// Makes a namespace, or makes it again. Returns its identifier.
    pub fn make(&self, name: &str) -> String {
        self.change(|state| {
            if let Some(uid) = state.namespaces.remove(name) {
                state.event("DELETED", name, &uid);
            }
            state.make(name)
        })
    }

    /// Removes a namespace.
    pub fn remove(&self, name: &str) {
        self.change(|state| {
            if let Some(uid) = state.namespaces.remove(name) {
                state.removed.insert(name.to_owned());
                state.event("DELETED", name, &uid);
            }
        });
    }

    /// Gives the pod of this name another identifier.
    pub fn set_pod(&self, namespace: &str, name: &str, uid: &str) {
        let key = (namespace.to_owned(), name.to_owned());
        self.change(|state| state.pods.insert(key, uid.to_owned()));
    }

    /// Gives the pod of this name its own users.
    #[allow(dead_code, reason = "not every binary of tests has such pods")]
    pub fn set_own_users(&self, namespace: &str, name: &str) {
        let key = (namespace.to_owned(), name.to_owned());
        self.change(|state| state.own_users.insert(key));
    }

    /// Runs a pod on a node, which declares these models.
    #[allow(dead_code, reason = "not every binary of tests has such pods")]
    pub fn run_pod(&self, node: &str, namespace: &str, name: &str, models: &str) {
        self.change(|state| {
            state.version += 1;
            let version = state.version.to_string();
            let pod = json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {
                    "namespace": namespace, "name": name, "uid": format!("{namespace}-{name}"),
                    "resourceVersion": version, "annotations": {"tetris.dev/models": models},
                },
                "spec": {"nodeName": node, "containers": []}, "status": {"phase": "Running"},
            });
            let event = json!({"type": "ADDED", "object": pod});
            state.events.push((state.version, Kind::Pod, event));
            state.running.push(pod);
        });
    }

    /// Knows a token of `account` for `audience` from now on.
    #[allow(dead_code, reason = "not every binary of tests has tokens")]
    pub fn add_token(&self, token: &str, account: &str, audience: &str) {
        let known = (account.to_owned(), audience.to_owned());
        self.change(|state| state.tokens.insert(token.to_owned(), known));
    }

    /// Answers every request with an error, or stops doing so.
    pub fn set_down(&self, is_down: bool) {
        self.change(|state| state.is_down = is_down);
    }

    /// Withholds events from watches, or stops doing so.
    pub fn set_silent(&self, is_silent: bool) {
        self.change(|state| state.is_silent = is_silent);
    }

    /// Serves over HTTP from now on, in the runtime that this is called in.
    pub async fn serve(&self) -> SocketAddr {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = self.router();
        tokio::spawn(async move { axum::serve(listener, router).await });
        address
    }

    /// The routes of the server.
    pub fn router(&self) -> Router {
        Router::new()
            .route("/api/v1/namespaces", get(namespaces))
            .route("/api/v1/namespaces/{name}", get(namespace))
            .route("/api/v1/namespaces/{namespace}/pods/{name}", get(pod))
            .route("/api/v1/pods", get(pods))
            .route(
                "/apis/authentication.k8s.io/v1/tokenreviews",
                post(review_token),
            )
            .with_state(self.clone())
    }

    fn change<T>(&self, change: impl FnOnce(&mut Objects) -> T) -> T {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let result = change(&mut state);
        if !state.is_silent {
            self.told.send_replace(state.version);
        }
        result
    }

    /// Events of these objects after this version, as they come.
    fn events(&self, kind: Kind, after: u64) -> Response {
        let told = (self.clone(), self.told.subscribe(), after);
        let body = futures::stream::unfold(told, move |(api, mut told, after)| async move {
            let until = *told.wait_for(|version| *version > after).await.ok()?;
            let lines = api.change(|state| {
                let new = state
                    .events
                    .iter()
                    .filter(|(at, of, _)| *of == kind && (after + 1..=until).contains(at));
                new.flat_map(|(_, _, event)| [event.to_string(), "\n".to_owned()])
                    .collect::<String>()
            });
            Some((
                Ok::<_, std::io::Error>(Bytes::from(lines)),
                (api, told, until),
            ))
        });
        Response::new(Body::from_stream(body))
    }
}

fn metadata(name: &str, uid: &str, version: u64) -> Value {
    json!({
        "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
        "metadata": {"name": name, "uid": uid, "resourceVersion": version.to_string()},
    })
}

fn list(kind: &str, items: &[Value], version: u64) -> Response {
    let metadata = json!({"resourceVersion": version.to_string()});
    let list = json!({"apiVersion": "v1", "kind": kind, "metadata": metadata, "items": items});
    axum::Json(list).into_response()
}

fn refusal(code: u16, reason: &str) -> Response {
    let status = json!({
        "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
        "message": "as the test wants it", "reason": reason, "code": code,
    });
    let code = StatusCode::from_u16(code).unwrap();
    (code, axum::Json(status)).into_response()
}

async fn namespaces(
    State(api): State<Api>,
    Query(asked): Query<BTreeMap<String, String>>,
) -> Response {
    if api.change(|state| state.is_down) {
        return refusal(503, "ServiceUnavailable");
    }
    if asked.get("watch").is_some_and(|watch| watch == "true") {
        return api.events(Kind::Namespace, asked["resourceVersion"].parse().unwrap());
    }
    api.change(|state| {
        let all = state.namespaces.iter();
        let all: Vec<_> = all.map(|(name, uid)| metadata(name, uid, 1)).collect();
        list("PartialObjectMetadataList", &all, state.version)
    })
}

async fn namespace(State(api): State<Api>, Path(name): Path<String>) -> Response {
    api.change(|state| {
        if state.is_down {
            return refusal(503, "ServiceUnavailable");
        }
        if state.removed.contains(&name) {
            return refusal(404, "NotFound");
        }
        let known = state.namespaces.get(&name).cloned();
        let uid = known.unwrap_or_else(|| state.make(&name));
        axum::Json(metadata(&name, &uid, 1)).into_response()
    })
}

async fn pod(State(api): State<Api>, Path(key): Path<(String, String)>) -> Response {
    api.change(|state| {
        if state.is_down {
            return refusal(503, "ServiceUnavailable");
        }
        let uid = state.pods.get(&key).map_or(POD_UID, String::as_str);
        let spec = json!({"containers": [], "hostUsers": !state.own_users.contains(&key)});
        let metadata = json!({"name": key.1, "uid": uid, "resourceVersion": "1"});
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec});
        axum::Json(pod).into_response()
    })
}

/// Those of all nodes: the selector is left to the client to check.
async fn pods(State(api): State<Api>, Query(asked): Query<BTreeMap<String, String>>) -> Response {
    if api.change(|state| state.is_down) {
        return refusal(503, "ServiceUnavailable");
    }
    if asked.get("watch").is_some_and(|watch| watch == "true") {
        return api.events(Kind::Pod, asked["resourceVersion"].parse().unwrap());
    }
    api.change(|state| list("PodList", &state.running, state.version))
}

/// As the API server answers: a token is valid if one of the audiences is its own.
async fn review_token(State(api): State<Api>, axum::Json(review): axum::Json<Value>) -> Response {
    api.change(|state| {
        if state.is_down {
            return refusal(503, "ServiceUnavailable");
        }
        let asked = &review["spec"];
        let known = asked["token"]
            .as_str()
            .and_then(|token| state.tokens.get(token));
        let audiences = asked["audiences"].as_array().cloned().unwrap_or_default();
        let status = match known {
            Some((account, audience)) if audiences.iter().any(|asked| asked == audience) => {
                json!({"authenticated": true, "audiences": [audience], "user": {"username": account}})
            }
            _ => json!({"authenticated": false, "error": "invalid bearer token"}),
        };
        let mut answer = review;
        answer["status"] = status;
        (StatusCode::CREATED, axum::Json(answer)).into_response()
    })
}
