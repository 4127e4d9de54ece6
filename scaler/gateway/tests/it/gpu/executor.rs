//! An executor over a GPU of a simulated node. It serves one request at a time.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode};
use serde_json::json;

use super::node::{Node, State};
use crate::port::Port;
use crate::server::{Count, Gate, Server};

pub struct Executor {
    pub address: SocketAddr,
    server: Server,
    shared: Arc<Shared>,
}

struct Shared {
    node: Arc<Node>,
    gpu: usize,
    running: tokio::sync::Mutex<()>,
    here: Arc<Count>,
    served: Mutex<Vec<String>>,
    orders: Mutex<Vec<String>>,
    /// Requests wait here while it is closed.
    gate: Gate,
    refuses_loads: AtomicBool,
    without: Mutex<Vec<String>>,
}

impl Executor {
    pub fn start(node: &Arc<Node>, gpu: usize) -> Self {
        Self::on(Port::take(), node, gpu)
    }

    pub fn on(port: Port, node: &Arc<Node>, gpu: usize) -> Self {
        let shared = Arc::new(Shared {
            node: Arc::clone(node),
            gpu,
            running: tokio::sync::Mutex::default(),
            here: Arc::default(),
            served: Mutex::default(),
            orders: Mutex::default(),
            gate: Gate::new(true),
            refuses_loads: AtomicBool::new(false),
            without: Mutex::default(),
        });
        let serving = Arc::clone(&shared);
        let server = Server::start(port, move |request| answer(Arc::clone(&serving), request));
        Self {
            address: server.address(),
            server,
            shared,
        }
    }

    /// Ends it with all its connections and its leases, as a kill does. Returns its port.
    pub async fn kill(self) -> Port {
        let port = self.server.kill().await;
        self.shared.node.clear(self.shared.gpu);
        port
    }

    /// Holds requests that run from now on.
    pub fn hold(&self) {
        self.shared.gate.close();
    }

    pub fn open(&self) {
        self.shared.gate.open();
    }

    pub fn refuse_loads(&self, refuses: bool) {
        self.shared.refuses_loads.store(refuses, Ordering::SeqCst);
    }

    /// Serves a model no more.
    pub fn do_without(&self, model: &str) {
        self.shared.without.lock().unwrap().push(model.to_owned());
    }

    /// Models of the requests that ran to their end.
    pub fn served(&self) -> Vec<String> {
        self.shared.served.lock().unwrap().clone()
    }

    /// Orders to load and unload.
    pub fn orders(&self) -> Vec<String> {
        self.shared.orders.lock().unwrap().clone()
    }

    /// Largest number of requests at a time.
    pub fn most(&self) -> usize {
        self.shared.here.most()
    }

    /// Waits until so many requests are here.
    pub async fn has(&self, requests: usize) {
        while self.shared.here.now() != requests {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    }
}

async fn answer(
    shared: Arc<Shared>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().path().to_owned();
    let query = request.uri().query().unwrap_or_default().to_owned();
    drop(request.into_body().collect().await);
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let model = |name: &str| {
        let without = shared.without.lock().unwrap();
        let known = shared.node.model(name);
        known
            .filter(|_| !without.iter().any(|entry| entry == name))
            .cloned()
    };
    Ok(match parts.as_slice() {
        ["v2", "gpu"] => text(StatusCode::OK, page(&shared, query != "parts=false")),
        ["v2", "repository", "models", name, order] => {
            shared
                .orders
                .lock()
                .unwrap()
                .push(format!("{order} {name}"));
            let Some(model) = model(name) else {
                return Ok(text(StatusCode::NOT_FOUND, "unknown".to_owned()));
            };
            if *order == "unload" {
                shared.node.unload(shared.gpu, &model);
                return Ok(text(StatusCode::OK, String::new()));
            }
            let refuses = shared.refuses_loads.load(Ordering::SeqCst);
            if refuses || shared.node.load(shared.gpu, &model).is_err() {
                return Ok(text(StatusCode::SERVICE_UNAVAILABLE, "full".to_owned()));
            }
            text(StatusCode::OK, String::new())
        }
        ["v2", "models", name, "infer"] => match model(name) {
            Some(model) => infer(shared.clone(), &model).await,
            None => text(StatusCode::NOT_FOUND, "unknown".to_owned()),
        },
        _ => text(StatusCode::NOT_FOUND, path.clone()),
    })
}

async fn infer(shared: Arc<Shared>, model: &super::node::Model) -> Response<Full<Bytes>> {
    let here = shared.here.enter();
    let node = &shared.node;
    let begun = Instant::now();
    let mut loaded = false;
    let running = shared.running.lock().await;
    loop {
        let changed = node.changed.notified();
        match node.state(shared.gpu, &model.name) {
            Some(State::Resident) => break,
            Some(State::Loading { .. }) => {
                loaded = true;
                // Also without news: it may have come just before.
                drop(tokio::time::timeout(std::time::Duration::from_millis(5), changed).await);
            }
            None => {
                if node.load(shared.gpu, model).is_err() {
                    return text(StatusCode::SERVICE_UNAVAILABLE, "full".to_owned());
                }
            }
        }
    }
    let rest = if loaded {
        let computed = model.infer.saturating_sub(begun.elapsed());
        computed.max(model.after_load)
    } else {
        model.infer
    };
    tokio::time::sleep(rest).await;
    shared.gate.pass().await;
    drop(running);
    shared.served.lock().unwrap().push(model.name.clone());
    drop(here);
    let document = json!({"model_name": model.name, "gpu": shared.gpu});
    text(StatusCode::OK, document.to_string())
}

fn page(shared: &Shared, with_parts: bool) -> String {
    let Shared { node, gpu, .. } = shared;
    let without = shared.without.lock().unwrap();
    let models = node
        .rules
        .models
        .iter()
        .filter(|model| !without.contains(&model.name));
    let models = models.map(|model| {
        let state = match node.state(*gpu, &model.name) {
            None => "absent",
            Some(State::Resident) => "resident",
            Some(State::Loading { .. }) => "loading",
        };
        let mut document = json!({
            "name": model.name, "model": format!("content of {}", model.name), "bytes": model.bytes(), "state": state,
        });
        if with_parts {
            let parts = model.parts.iter();
            document["parts"] = parts.map(|(id, bytes)| json!({"id": id, "bytes": bytes})).collect();
        }
        document
    });
    let links = (0..node.rules.gpus)
        .filter(|other| other != gpu)
        .filter_map(|other| {
            let speed = node.rules.peers?[usize::from(other / 2 != gpu / 2)];
            Some(json!({"to": format!("gpu {other}"), "bytes_per_second": speed}))
        });
    let capacity = node.rules.capacity_bytes;
    json!({
        "uuid": format!("gpu {gpu}"), "device": format!("simulated:{gpu}"), "node": "one",
        "capacity_bytes": capacity, "free_bytes": capacity - node.used(*gpu),
        "bytes_per_second": node.rules.bytes_per_s, "switch": (gpu / 2).to_string(),
        "links": links.collect::<Vec<_>>(), "concurrency": 1, "running": 0, "queued": 0, "transfers": [],
        "models": models.collect::<Vec<_>>(),
    })
    .to_string()
}

fn text(status: StatusCode, text: String) -> Response<Full<Bytes>> {
    Response::builder()
        .status(status)
        .body(Full::new(Bytes::from(text)))
        .unwrap()
}
