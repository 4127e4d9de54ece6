//! Watches of an API server that is away for an hour of simulated time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::{function_object, pod_object, profile_object, ready};
use crate::callers::Callers;
use crate::cluster::Cluster;
use crate::config::{CallersConfig, ClusterDefaults, Limits, Timeouts};
use crate::memory::{Memory, Sizes};
use crate::metrics::Metrics;
use crate::proxy::Proxy;

/// The longest time until all is right again: two of kube's waits of 30 s, with their jitter. The first attempt finds
/// that the server has forgotten the watch's version, the second lists.
const RECOVERY: Duration = Duration::from_mins(2);
/// Number of watches.
const WATCHES: usize = 5;
const CONFIGURATION: &str = "c2000-b4-p2";

/// An API server with one function and its pods; `None` while it is away. Watches break off then. Their number is
/// the version: a server forgets changes after minutes.
#[derive(Clone)]
struct Server {
    pods: watch::Sender<Option<Vec<&'static str>>>,
    refused: Arc<AtomicUsize>,
}

async fn answer(State(server): State<Server>, uri: Uri) -> Response {
    let Some(pods) = server.pods.borrow().clone() else {
        server.refused.fetch_add(1, Ordering::Relaxed);
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    };
    let query = uri.query().unwrap_or_default();
    let version = pods.len().to_string();
    if query.contains("watch=") && !query.contains(&format!("resourceVersion={version}")) {
        return axum::Json(expired()).into_response();
    }
    if query.contains("watch=") {
        let mut told = server.pods.subscribe();
        let broken = async move {
            drop(told.wait_for(Option::is_none).await);
            Err::<Bytes, _>(std::io::Error::from(std::io::ErrorKind::ConnectionReset))
        };
        return Body::from_stream(futures::stream::once(broken)).into_response();
    }
    let items: Vec<Value> = match uri.path() {
        path if path.ends_with("/inferencefunctions") => vec![function_object(200)],
        path if path.ends_with("/modelprofiles") => vec![profile_object()],
        "/api/v1/pods" => pods.into_iter().map(instance).collect(),
        _ => Vec::new(),
    };
    let metadata = json!({"resourceVersion": version});
    axum::Json(json!({"apiVersion": "v1", "kind": "List", "metadata": metadata, "items": items}))
        .into_response()
}

/// The event of a watch from a version that the server has forgotten.
fn expired() -> Value {
    let status = json!({
        "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
        "message": "too old resource version", "reason": "Expired", "code": 410,
    });
    json!({"type": "ERROR", "object": status})
}

fn instance(address: &str) -> Value {
    pod_object(address, CONFIGURATION, &ready(address))
}

/// Addresses of the instances that requests go to.
fn served(proxy: &Proxy) -> Vec<String> {
    let routes = proxy.routes();
    let endpoints = routes.functions().flat_map(|function| function.endpoints());
    endpoints
        .map(|endpoint| endpoint.address.ip().to_string())
        .collect()
}

async fn until(proxy: &Proxy, expected: &[&str]) {
    let seen = async {
        while served(proxy) != expected {
            sleep(Duration::from_secs(1)).await;
        }
    };
    let seen = timeout(RECOVERY, seen).await;
    assert!(seen.is_ok(), "{:?}, expected {expected:?}", served(proxy));
}

#[tokio::test(start_paused = true)]
async fn instances_stay_while_the_api_server_is_away_for_an_hour_and_are_right_soon_after() {
    let server = Server {
        pods: watch::Sender::new(Some(vec!["10.0.0.1"])),
        refused: Arc::default(),
    };
    let router = Router::new().fallback(answer).with_state(server.clone());
    let client = kube::Client::new(router, "default");
    let callers = Callers::new(client.clone(), &CallersConfig::default());
    let cluster = Cluster::new(
        client,
        "tetris-system".to_owned(),
        ClusterDefaults::default(),
        Arc::new(callers),
    );
    let limits = Limits::default();
    let memory = Memory::new(Sizes::of(&limits, None));
    let proxy = Proxy::new(&limits, Timeouts::default(), Metrics::new(), memory);
    let outage = async {
        until(&proxy, &["10.0.0.1"]).await;
        server.pods.send_replace(None);
        for _ in 0..60 {
            sleep(Duration::from_mins(1)).await;
            assert_eq!(served(&proxy), ["10.0.0.1"]);
        }
        let refused = server.refused.load(Ordering::Relaxed) / WATCHES;
        assert!(
            (60..=400).contains(&refused),
            "{refused} attempts of each watch"
        );
        server.pods.send_replace(Some(vec!["10.0.0.2", "10.0.0.3"]));
        until(&proxy, &["10.0.0.2", "10.0.0.3"]).await;
    };
    tokio::select! {
        () = outage => {}
        () = cluster.run(&proxy, || {}) => panic!("the watches have ended"),
    }
}
