//! Tests of inventories, with simulated daemons.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use tetris_scaler::nodes::{Daemon, PollOptions, Poller, Tokens};
use tetris_scaler::resources::stored_object;
use tetris_scaler_core::{InventoryLimits, ModelTensors};
use tetris_service_kit::bound_tls::{BoundClient, BoundTls};
use tetris_service_kit::http::{ConnectionLimits, OneRequest, serve};
use tetris_store_layout::ObjectId;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::served::api::Api;
use crate::whole::daemons::serve_page;

#[derive(Default)]
struct Served {
    body: String,
    tag: String,
    full: u32,
    unchanged: u32,
}

type Shared = Arc<Mutex<Served>>;

fn page(shared: &Shared, headers: &HeaderMap) -> Response {
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
    serve_page(listener, move |headers| page(&shared, headers));
    address
}

fn poller(options: PollOptions, api: &Api) -> Poller {
    let tokens = Tokens::new(
        api.client(),
        "tetris-system",
        "tetris-scaler",
        Some("scaler-1"),
    );
    Poller::try_new(options, InventoryLimits::default(), tokens).unwrap()
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
    let api = Api::default();
    let mut poller = poller(PollOptions::default(), &api);
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
    let tokens = api.with(|state| state.asked.len());
    assert_eq!(tokens, 1, "a token is used for most of its life");
}

/// A pod that has got the address of a daemon that is gone gets a token that the next daemon does
/// not accept.
#[tokio::test]
async fn a_token_is_good_for_one_daemon_alone() {
    let (seen, mut tokens) = tokio::sync::mpsc::unbounded_channel();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let patience = Duration::from_mins(1);
    let requests = OneRequest {
        request: patience,
        answer: patience,
    };
    let tls = BoundTls::try_new("tetris-node", patience, requests).unwrap();
    let thief = async move |headers: HeaderMap| {
        seen.send(headers["authorization"].to_str().unwrap().to_owned())
            .unwrap();
        StatusCode::NOT_FOUND
    };
    let router = Router::new().fallback(thief);
    let limits = ConnectionLimits::default();
    tokio::spawn(serve(listener, tls, router, limits, std::future::pending()));
    let api = Api::default();
    let daemons = [Daemon {
        node: "n".to_owned(),
        address,
    }];
    let mut poller = poller(PollOptions::default(), &api);
    let (_, errors) = poller.round(&daemons).await;
    assert_eq!(errors[0].class(), "inventory_unreachable");
    let stolen = tokens.recv().await.unwrap();
    let shared = Shared::default();
    shared.lock().unwrap().body = body(&[]);
    let daemon = daemon(shared).await;
    let client = BoundClient::try_new("tetris-node").unwrap();
    let stream = tokio::net::TcpStream::connect(daemon).await.unwrap();
    let mut bound = client.connect(stream, daemon.ip()).await.unwrap();
    assert!(!stolen.contains(&bound.audience), "{stolen}");
    let request = format!(
        "GET /inventory/objects HTTP/1.1\r\nhost: n\r\nauthorization: {stolen}\r\nconnection: close\r\n\r\n"
    );
    bound.stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let _ended = bound.stream.read_to_end(&mut answer).await;
    let answer = String::from_utf8(answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
}

#[tokio::test]
async fn without_a_token_there_is_an_error_that_names_the_right() {
    let shared = Shared::default();
    let daemons = [Daemon {
        node: "n".to_owned(),
        address: daemon(Arc::clone(&shared)).await,
    }];
    let api = Api::default();
    api.with(|state| state.fails_with = Some(403));
    let mut poller = poller(PollOptions::default(), &api);
    let (_, errors) = poller.round(&daemons).await;
    assert_eq!(errors[0].class(), "inventory_refused");
    let error = errors[0].to_string();
    assert!(error.contains("serviceaccounts/token"), "{error}");
    assert_eq!(shared.lock().unwrap().full, 0);
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
    let api = Api::default();
    let mut poller = poller(options, &api);
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
