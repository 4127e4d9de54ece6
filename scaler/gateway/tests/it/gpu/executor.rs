//! An executor over a GPU of a simulated node. It serves one request at a time.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::node::{Node, State};

pub struct Executor {
    pub address: SocketAddr,
    pub gpu: usize,
    shared: Arc<Shared>,
    task: tokio::task::JoinHandle<()>,
}

struct Shared {
    node: Arc<Node>,
    gpu: usize,
    running: tokio::sync::Mutex<()>,
    now: AtomicUsize,
    most: AtomicUsize,
    served: Mutex<Vec<String>>,
    orders: Mutex<Vec<String>>,
    /// Requests wait here while it is false.
    opened: watch::Sender<bool>,
    refuses_loads: AtomicBool,
    without: Mutex<Vec<String>>,
}

impl Executor {
    pub async fn start(node: &Arc<Node>, gpu: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self::on(listener, node, gpu)
    }

    pub fn on(listener: TcpListener, node: &Arc<Node>, gpu: usize) -> Self {
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            node: Arc::clone(node),
            gpu,
            running: tokio::sync::Mutex::default(),
            now: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
            served: Mutex::default(),
            orders: Mutex::default(),
            opened: watch::channel(true).0,
            refuses_loads: AtomicBool::new(false),
            without: Mutex::default(),
        });
        let serving = Arc::clone(&shared);
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                stream.set_nodelay(true).unwrap();
                let shared = Arc::clone(&serving);
                connections.spawn(async move {
                    let service = service_fn(move |request| answer(Arc::clone(&shared), request));
                    let served = Builder::new(TokioExecutor::new())
                        .serve_connection(TokioIo::new(stream), service)
                        .into_owned();
                    drop(served.await);
                });
            }
        });
        Self {
            address,
            gpu,
            shared,
            task,
        }
    }

    /// Ends it with all its connections and its leases, as a kill does. Returns its address.
    pub async fn kill(self) -> SocketAddr {
        self.task.abort();
        drop(self.task.await);
        self.shared.node.clear(self.gpu);
        self.address
    }

    /// Holds requests that run from now on.
    pub fn hold(&self) {
        self.shared.opened.send_replace(false);
    }

    pub fn open(&self) {
        self.shared.opened.send_replace(true);
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
        self.shared.most.load(Ordering::SeqCst)
    }

    /// Waits until so many requests are here.
    pub async fn has(&self, requests: usize) {
        while self.shared.now.load(Ordering::SeqCst) != requests {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    }
}

/// Counts a request while it is here.
struct Here(Arc<Shared>);

impl Drop for Here {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::SeqCst);
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
            .filter(|_| !without.iter().any(|one| one == name))
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
    let now = shared.now.fetch_add(1, Ordering::SeqCst) + 1;
    shared.most.fetch_max(now, Ordering::SeqCst);
    let here = Here(Arc::clone(&shared));
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
    let mut opened = shared.opened.subscribe();
    opened.wait_for(|open| *open).await.unwrap();
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
