//! A simulated Prometheus with the test's loads.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::extract::{Query, State};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// Values, each with the name of a pod, or an empty name.
type Samples = Vec<(String, f64)>;

/// Samples by query.
#[derive(Clone, Default)]
pub struct Loads(Arc<Mutex<BTreeMap<String, Samples>>>);

impl Loads {
    pub async fn start() -> (Self, SocketAddr) {
        let loads = Self::default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new()
            .route("/api/v1/query", get(answer))
            .with_state(loads.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        (loads, address)
    }

    /// Sets the load of a function.
    pub fn set(&self, function: &str, load: f64) {
        self.put(function.to_owned(), vec![(String::new(), load)]);
    }

    /// Sets the load of each of its instances.
    pub fn set_pods(&self, function: &str, loads: Samples) {
        self.put(format!("pods of {function}"), loads);
    }

    fn put(&self, query: String, samples: Samples) {
        self.0.lock().unwrap().insert(query, samples);
    }
}

async fn answer(
    State(loads): State<Loads>,
    Query(asked): Query<BTreeMap<String, String>>,
) -> Json<Value> {
    let all = loads.0.lock().unwrap();
    let samples = all.get(&asked["query"]).cloned().unwrap_or_default();
    let samples = samples
        .into_iter()
        .map(|(pod, load)| json!({"metric": {"pod": pod}, "value": [0, load.to_string()]}));
    let samples: Vec<Value> = samples.collect();
    Json(json!({"status": "success", "data": {"resultType": "vector", "result": samples}}))
}
