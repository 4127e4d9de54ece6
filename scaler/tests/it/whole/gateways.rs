//! Simulated gateways, each on its own address, as they share one port.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use axum::Router;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::whole::api::id;
use crate::whole::daemons::loopback;
use crate::whole::world::World;

/// A gateway. Clones share it.
#[derive(Clone)]
pub struct Gateway {
    name: String,
    started: Instant,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    functions: BTreeMap<String, Counted>,
    is_silent: bool,
    /// Number of pages with a request that waits.
    waiting_pages: usize,
}

/// A load, and the requests so far.
struct Counted {
    load: Function,
    before: f64,
    since: Instant,
}

impl Counted {
    fn requests(&self) -> f64 {
        self.before + self.load.rps * self.since.elapsed().as_secs_f64()
    }
}

/// Load of a function at one gateway.
#[derive(Clone, Default)]
pub struct Function {
    /// Requests per second.
    pub rps: f64,
    pub waiting: u64,
    pub in_flight: u64,
    /// Outstanding requests by pod.
    pub outstanding: Vec<(String, u64)>,
}

impl Gateway {
    /// Sets the load of a function of the namespace `blue`.
    pub fn set(&self, function: &str, load: Function) {
        let mut state = self.state.lock().unwrap();
        let before = state.functions.get(function).map_or(0.0, Counted::requests);
        let counted = Counted {
            load,
            before,
            since: Instant::now(),
        };
        state.functions.insert(function.to_owned(), counted);
    }

    /// Sets it to answer with an error, or not.
    pub fn silence(&self, is_silent: bool) {
        self.state.lock().unwrap().is_silent = is_silent;
    }

    /// Number of pages served with a request that waits.
    pub fn waiting_pages(&self) -> usize {
        self.state.lock().unwrap().waiting_pages
    }

    fn answer(&self) -> Response {
        let mut state = self.state.lock().unwrap();
        if state.is_silent {
            return StatusCode::SERVICE_UNAVAILABLE.into_response();
        }
        let passed = self.started.elapsed();
        let functions = state.functions.iter().map(|(name, counted)| {
            let load = &counted.load;
            let instances = load.outstanding.iter();
            let instances = instances.map(|(pod, count)| json!({"pod": pod, "outstanding": count}));
            json!({
                "namespace": "blue", "function": name,
                "requests": counted.requests() as u64,
                "waiting": load.waiting, "in_flight": load.in_flight,
                "oldest_wait_ms": load.waiting, "latency": null,
                "instances": instances.collect::<Vec<Value>>(),
            })
        });
        let page = json!({
            "version": 1, "gateway": self.name, "started_ms": 1_795_598_779_106_u64,
            "at_ms": passed.as_millis() as u64, "functions": functions.collect::<Vec<Value>>(),
        });
        if state
            .functions
            .values()
            .any(|function| function.load.waiting > 0)
        {
            state.waiting_pages += 1;
        }
        page.to_string().into_response()
    }
}

impl World {
    /// Starts a gateway in the pod `name`.
    pub async fn gateway(&self, name: &str) -> Gateway {
        let gateway = Gateway {
            name: name.to_owned(),
            started: Instant::now(),
            state: Arc::default(),
        };
        let address = loopback();
        let listener = TcpListener::bind((address, tetris_scaler::gateways::PORT)).await;
        let listener = listener.unwrap();
        let answers = gateway.clone();
        let router = Router::new().route("/loads", get(async move || answers.answer()));
        tokio::spawn(async move { axum::serve(listener, router).await });
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"labels": {"app.kubernetes.io/name": "tetris-gateway"}},
            "spec": {"nodeName": "node-0", "containers": [{"name": "gateway", "image": "gateway"}]},
            "status": {
                "phase": "Running", "podIP": address.to_string(),
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        });
        self.api.with(|state| {
            let key = id("pods", "tetris-system", name);
            state.objects.create(&key, pod);
        });
        gateway
    }

    /// Creates a function whose load gateways count.
    pub fn counted_function(&self, name: &str) {
        let mut function = crate::whole::documents::function(name);
        function["spec"]["load"] = json!({"gateway": {}});
        self.create(name, function);
    }
}
