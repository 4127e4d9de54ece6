//! The API server over HTTP.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Query, State as Shared};
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::answers::{Asked, Request, State, failure, selected};
use super::target::Target;

/// Number of other changes after which a watch gets a bookmark.
const BOOKMARK: u64 = 20;

/// The API server. Clones share it.
#[derive(Clone)]
pub struct Api {
    state: Arc<Mutex<State>>,
    changed: watch::Sender<()>,
}

impl Api {
    /// Starts to serve.
    pub async fn start() -> (Self, SocketAddr) {
        let api = Self {
            state: Arc::default(),
            changed: watch::channel(()).0,
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().fallback(answer).with_state(api.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        (api, address)
    }

    /// Runs `look` on the state, which it may change.
    pub fn with<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        let (result, has_changed) = self.look(|state| {
            let before = (state.objects.version, state.cuts);
            let result = look(state);
            (result, before != (state.objects.version, state.cuts))
        });
        if has_changed {
            self.changed.send_replace(());
        }
        result
    }

    fn look<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        // Ignore poisoning, so that a failing test can still print the state.
        look(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

async fn answer(
    Shared(api): Shared<Api>,
    Query(query): Query<BTreeMap<String, String>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let text = |name| {
        let value = headers.get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or_default().to_owned()
    };
    let Some(mut target) = Target::read(uri.path()) else {
        return reply(failure(404, "no such path"));
    };
    let selected = query.get("fieldSelector");
    let selected = selected.and_then(|selector| selector.strip_prefix("metadata.name="));
    target.selected = selected.map(str::to_owned);
    let by = text(header::AUTHORIZATION).replace("Bearer ", "");
    if query.contains_key("watch") {
        return watching(&api, by, target, query);
    }
    let verb = match (method.as_str(), target.name.is_some()) {
        ("GET", true) => "get",
        ("GET", false) => "list",
        ("POST", _) => "create",
        ("PUT", _) => "update",
        ("PATCH", _) => "patch",
        _ => "delete",
    };
    let (code, mut object) = api.with(|state| {
        state.answer(Request {
            by,
            verb,
            target: &target,
            query,
            content: text(header::CONTENT_TYPE),
            body: serde_json::from_slice(&body).unwrap_or_default(),
        })
    });
    if code < 300 && text(header::ACCEPT).contains("as=PartialObjectMetadata") {
        object = json!({
            "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": object["metadata"],
        });
    }
    reply((code, object))
}

fn reply((code, object): (u16, Value)) -> Response {
    let code = StatusCode::from_u16(code).unwrap();
    let kind = [(header::CONTENT_TYPE, "application/json")];
    (code, kind, object.to_string()).into_response()
}

/// A watch and its position.
struct Watching {
    api: Api,
    changed: watch::Receiver<()>,
    target: Target,
    selector: Option<String>,
    since: u64,
    cuts: u64,
    has_begun: bool,
    has_ended: bool,
}

fn watching(api: &Api, by: String, target: Target, query: BTreeMap<String, String>) -> Response {
    let since = query.get("resourceVersion");
    let since = since.and_then(|since| since.parse().ok());
    let Some(since) = since.filter(|_| query.contains_key("allowWatchBookmarks")) else {
        return reply(failure(400, "a watch without resourceVersion or bookmarks"));
    };
    let watching = Watching {
        api: api.clone(),
        changed: api.changed.subscribe(),
        selector: query.get("labelSelector").cloned(),
        since,
        cuts: api.look(|state| state.cuts),
        has_begun: false,
        has_ended: false,
        target,
    };
    let allowed = api.look(|state| {
        let allowed = state.may("watch", &watching.target);
        state.asked.push(Asked {
            by,
            verb: "watch",
            resource: watching.target.full(),
            name: String::new(),
            query,
            body: Value::Null,
            code: 200,
        });
        allowed
    });
    if let Err((code, problem)) = allowed {
        return reply(failure(code, &problem));
    }
    let stream = futures::stream::unfold(watching, Watching::next);
    Body::from_stream(stream).into_response()
}

impl Watching {
    async fn next(mut self) -> Option<(io::Result<Bytes>, Self)> {
        while !self.has_ended {
            self.changed.borrow_and_update();
            let api = self.api.clone();
            let lines = api.look(|state| self.lines(state));
            match lines {
                Err(error) => {
                    self.has_ended = true;
                    return Some((Err(error), self));
                }
                Ok(lines) if !lines.is_empty() => return Some((Ok(lines.into()), self)),
                Ok(_) => self.changed.changed().await.ok()?,
            }
        }
        None
    }

    fn lines(&mut self, state: &State) -> io::Result<String> {
        if state.cuts != self.cuts {
            return Err(io::Error::other("the watch is cut"));
        }
        if !self.has_begun && self.since < state.objects.oldest {
            self.has_ended = true;
            let (_, status) = failure(410, "too old resource version");
            return Ok(line("ERROR", &status));
        }
        self.has_begun = true;
        let since = std::mem::replace(&mut self.since, state.objects.version);
        let first = (state.objects.history).partition_point(|event| event.version <= since);
        let new = state.objects.history[first..].iter().filter(|event| {
            event.id.0 == self.target.resource && selected(&event.object, self.selector.as_ref())
        });
        let mut lines: String = new.map(|event| line(event.what, &event.object)).collect();
        if lines.is_empty() && self.since < since + BOOKMARK {
            self.since = since;
        } else if lines.is_empty() {
            let (version, kind) = self.target.kind();
            let metadata = json!({"resourceVersion": self.since.to_string()});
            let mark = json!({"apiVersion": version, "kind": kind, "metadata": metadata});
            lines = line("BOOKMARK", &mark);
        }
        Ok(lines)
    }
}

fn line(what: &str, object: &Value) -> String {
    format!("{}\n", json!({"type": what, "object": object}))
}
