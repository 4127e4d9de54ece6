//! Tests of inventories, with simulated daemons.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use tetris_scaler::nodes::{Daemon, PollOptions, Poller};
use tetris_scaler::resources::stored_object;
use tetris_scaler_core::{InventoryLimits, ModelTensors};
use tetris_store_layout::ObjectId;

#[derive(Default)]
struct Served {
    body: String,
    tag: String,
    full: u32,
    unchanged: u32,
}

type Shared = Arc<Mutex<Served>>;

async fn page(State(shared): State<Shared>, headers: HeaderMap) -> Response {
    let mut served = shared.lock().unwrap();
    let asked = headers
        .get("if-none-match")
        .and_then(|tag| tag.to_str().ok());
    if asked == Some(served.tag.as_str()) {
        served.unchanged += 1;
        return StatusCode::NOT_MODIFIED.into_response();
    }
    served.full += 1;
    ([("etag", served.tag.clone())], served.body.clone()).into_response()
}

async fn daemon(shared: Shared) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new()
        .route("/inventory/objects", get(page))
        .with_state(shared);
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

fn poller(options: PollOptions) -> Poller {
    // Another test may have installed it already.
    drop(rustls::crypto::ring::default_provider().install_default());
    Poller::try_new(options, InventoryLimits::default()).unwrap()
}

fn body(objects: &[ObjectId]) -> String {
    let objects: Vec<String> = objects.iter().map(|id| format!("\"{id}\"")).collect();
    format!(
        r#"{{"version":1,"node":"n","stores":[{{"name":"blue","id":"x","usable":true,"capacity_bytes":9,"free_bytes":4,"objects":[{}]}}]}}"#,
        objects.join(",")
    )
}

#[tokio::test]
async fn what_changed_is_read_and_what_did_not_is_not() {
    let shared = Shared::default();
    let (a, b) = (ObjectId::of(b"a"), ObjectId::of(b"b"));
    *shared.lock().unwrap() = Served {
        body: body(&[a]),
        tag: "W/\"1\"".to_owned(),
        ..Served::default()
    };
    let daemons = [Daemon {
        node: "n".to_owned(),
        address: daemon(Arc::clone(&shared)).await,
    }];
    let mut poller = poller(PollOptions::default());
    let latest = poller.latest();
    let model = ModelTensors::try_new([
        (stored_object("blue", &a), 5),
        (stored_object("blue", &b), 7),
    ]);
    let model = model.unwrap();
    let resident = || {
        let theta = latest.lock().unwrap().inventory.theta(&model, "n");
        theta.map(|theta| theta.resident_bytes)
    };
    assert!(poller.round(&daemons).await.0);
    assert_eq!(resident(), Some(5));
    assert_eq!(latest.lock().unwrap().rooms["n"].free_bytes, 4);
    assert!(!poller.round(&daemons).await.0);
    assert_eq!(shared.lock().unwrap().unchanged, 1);
    {
        let mut served = shared.lock().unwrap();
        served.body = body(&[a, b]);
        served.tag = "W/\"2\"".to_owned();
    }
    assert!(poller.round(&daemons).await.0);
    assert_eq!(resident(), Some(12));
    assert!(poller.round(&[]).await.0, "its daemon is gone");
    assert_eq!(resident(), None);
}

#[tokio::test]
async fn bad_pages_are_errors_and_old_ones_are_dropped() {
    let shared = Shared::default();
    *shared.lock().unwrap() = Served {
        body: body(&[ObjectId::of(b"a")]),
        tag: "\"1\"".to_owned(),
        ..Served::default()
    };
    let daemons = [Daemon {
        node: "n".to_owned(),
        address: daemon(Arc::clone(&shared)).await,
    }];
    let options = PollOptions {
        max_bytes: 1_000,
        stale: Duration::ZERO,
        ..PollOptions::default()
    };
    let mut poller = poller(options);
    poller.round(&daemons).await;
    let set = |body: String, tag: &str| {
        let mut served = shared.lock().unwrap();
        served.body = body;
        served.tag = tag.to_owned();
    };
    set("x".repeat(2_000), "\"2\"");
    let (_, errors) = poller.round(&daemons).await;
    assert!(
        errors[0].to_string().contains("more than 1000 bytes"),
        "{}",
        errors[0]
    );
    assert_eq!(errors[0].class(), "inventory_malformed");
    assert_eq!(poller.latest().lock().unwrap().inventory.nodes().count(), 0);
    set(
        body(&[]).replace("\"node\":\"n\"", "\"node\":\"other\""),
        "\"3\"",
    );
    let (_, errors) = poller.round(&daemons).await;
    assert!(
        errors[0].to_string().contains("node \"other\""),
        "{}",
        errors[0]
    );
    let nobody = Daemon {
        node: "m".to_owned(),
        address: "127.0.0.1:1".parse().unwrap(),
    };
    let (_, errors) = poller.round(&[nobody]).await;
    assert_eq!(errors[0].class(), "inventory_unreachable");
}
