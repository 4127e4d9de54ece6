//! The whole webhook on real sockets.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use serde_json::{Value, json};
use tetris_webhook::http::{Limits, Tls};
use tetris_webhook::inject::Options;
use tetris_webhook::run::Webhook;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::served::api::Api;
use crate::served::client::{connect, connect_trusting, plain};
use crate::served::replica::{DAY, TestClock, data, names, secret};

/// A webhook that runs.
pub struct Running {
    pub api: Api,
    pub https: SocketAddr,
    pub http: SocketAddr,
    pub clock: TestClock,
    pub stop: oneshot::Sender<()>,
    pub ended: JoinHandle<()>,
}

/// Bounds that tests need not wait for.
pub fn limits() -> Limits {
    Limits {
        farewell: Duration::from_millis(200),
        ..Limits::default()
    }
}

impl Running {
    pub async fn start(api: &Api, limits: Limits) -> Self {
        let clock = TestClock::new();
        // What is served must be good by the client's clock, which is the machine's.
        let now = (tetris_webhook::certificates::system_clock())();
        clock.set(now);
        let https = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let http = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (at, plain_at) = (https.local_addr().unwrap(), http.local_addr().unwrap());
        let webhook = Webhook {
            https,
            http,
            client: api.client(),
            names: names(),
            options: Options::default(),
            limits,
            clock: clock.clock(),
        };
        let (stop, stopped) = oneshot::channel();
        let ended = tokio::spawn(async move {
            webhook.serve(async { drop(stopped.await) }).await.unwrap();
        });
        Self {
            api: api.clone(),
            https: at,
            http: plain_at,
            clock,
            stop,
            ended,
        }
    }

    /// One that is ready.
    pub async fn ready(api: &Api, limits: Limits) -> Self {
        let running = Self::start(api, limits).await;
        while plain(running.http).await.get("/readyz").await.0 != StatusCode::OK {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        running
    }
}

pub fn review() -> String {
    let kind = json!({"group": "", "version": "v1", "kind": "Pod"});
    json!({
        "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": "u-1", "kind": kind, "resource": {"group": "", "version": "v1", "resource": "pods"},
            "namespace": "blue", "operation": "CREATE", "userInfo": {"username": "someone"},
            "object": {
                "kind": "Pod", "apiVersion": "v1", "metadata": {"generateName": "server-", "labels": {"app": "x"}},
                "spec": {"containers": [{"name": "server", "image": "server"}]},
            },
        },
    })
    .to_string()
}

#[tokio::test]
async fn an_api_server_that_trusts_the_configuration_gets_patches() {
    let running = Running::ready(&Api::new(), limits()).await;
    let mut client = connect(&running.api, running.https).await.unwrap();
    // Not labeled itself: only the webhook of labeled namespaces gives it the store.
    let paths = [
        ("/mutate", false),
        ("/mutate/namespace", true),
        ("/mutate/namespace/python", true),
    ];
    for (path, patched) in paths {
        let (status, body) = client.post(path, review()).await;
        assert_eq!(status, StatusCode::OK);
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(body["response"]["uid"], "u-1");
        assert_eq!(body["response"]["allowed"], true);
        assert_eq!(
            body["response"]["patchType"] == "JSONPatch",
            patched,
            "{path}"
        );
    }
    assert_eq!(client.get("/healthz").await.0, StatusCode::OK);
    assert_eq!(client.get("/readyz").await.0, StatusCode::OK);
    let (_, metrics) = plain(running.http).await.get("/metrics").await;
    for line in [
        "tetris_webhook_reviews_total{outcome=\"injected\"} 2",
        "tetris_webhook_reviews_total{outcome=\"not-asked\"} 1",
        "tetris_webhook_connections_total{handshake=\"ok\"} 1",
        "tetris_webhook_review_seconds_count 3",
    ] {
        assert!(metrics.contains(line), "{line}\n{metrics}");
    }
}

#[tokio::test]
async fn nothing_is_served_before_there_is_a_certificate() {
    let api = Api::new();
    api.with(|state| state.configuration = None);
    let running = Running::start(&api, limits()).await;
    let (status, reason) = loop {
        let answer = plain(running.http).await.get("/readyz").await;
        if answer.1.contains("does not exist") {
            break answer;
        }
    };
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{reason}");
    assert_eq!(
        plain(running.http).await.get("/healthz").await.0,
        StatusCode::OK
    );
    let refused = connect_trusting("", running.https).await.err().unwrap();
    assert!(refused.to_string().contains("fatal alert"), "{refused}");
    api.with(|state| state.configure(crate::served::api::configuration()));
    while plain(running.http).await.get("/readyz").await.0 != StatusCode::OK {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(connect(&api, running.https).await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewed_certificate_is_served_to_new_connections_while_old_ones_go_on() {
    let api = Api::new();
    let first = Running::ready(&api, limits()).await;
    let mut old = connect(&api, first.https).await.unwrap();
    // Another replica renews; this one sees it at its next pass, which a start has at once.
    let serving = api.with(|state| {
        let before = data(state);
        let contents = tetris_webhook::certificates::Contents::read(&before);
        let action = tetris_webhook::certificates::Action::Renew;
        let renewed = tetris_webhook::certificates::apply(
            action,
            (first.clock.clock())(),
            contents,
            crate::served::replica::SERVER,
        );
        state.store(secret(&renewed.unwrap().unwrap()));
        data(state)
    });
    let second = Running::ready(&api, limits()).await;
    let new = connect(&api, second.https).await.unwrap();
    assert_ne!(old.certificate, new.certificate);
    let contents = tetris_webhook::certificates::Contents::read(&serving);
    assert_eq!(
        new.certificate.as_ref(),
        contents.leaf.unwrap().certified.cert.first()
    );
    // The first replica is behind, and trusted all the same.
    assert!(connect(&api, first.https).await.is_ok());
    assert_eq!(old.post("/mutate", review()).await.0, StatusCode::OK);
}

#[tokio::test]
async fn a_running_server_takes_up_a_renewal_without_a_restart() {
    let api = Api::new();
    let replica = crate::served::replica::Replica::new(&api);
    let now = (tetris_webhook::certificates::system_clock())();
    replica.clock.set(now - 61 * DAY);
    replica.sync.pass().await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (serving, metrics) = (Arc::clone(&replica.serving), Arc::clone(&replica.metrics));
    let tls = Tls::try_new(serving, metrics, limits().handshake).unwrap();
    let router = axum::Router::new().route("/", axum::routing::get(async || "ok"));
    let server = tokio::spawn(tetris_service_kit::http::serve(
        listener,
        tls,
        router,
        limits().connections(),
        std::future::pending(),
    ));
    let mut before = connect(&api, address).await.unwrap();
    replica.clock.set(now);
    replica.sync.pass().await.unwrap();
    let mut after = connect(&api, address).await.unwrap();
    assert_ne!(before.certificate, after.certificate);
    for connection in [&mut before, &mut after] {
        assert_eq!(connection.get("/").await.1, "ok");
    }
    server.abort();
}

#[tokio::test]
async fn what_cannot_be_read_is_refused_and_the_connection_goes_on() {
    let limits = Limits {
        body_bytes: 10_000,
        ..limits()
    };
    let running = Running::ready(&Api::new(), limits).await;
    let mut client = connect(&running.api, running.https).await.unwrap();
    for body in [
        "",
        "garbage",
        "{}",
        "[1]",
        "{\"kind\":\"AdmissionReview\",\"apiVersion\":\"admission.k8s.io/v1\"}",
    ] {
        let (status, reason) = client.post("/mutate", body).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{body}");
        assert!(reason.contains("expected"), "{reason}");
    }
    assert_eq!(
        client.get("/mutate").await.0,
        StatusCode::METHOD_NOT_ALLOWED
    );
    assert_eq!(client.get("/metrics").await.0, StatusCode::NOT_FOUND);
    assert_eq!(
        client.get("/mutate/namespace/x").await.0,
        StatusCode::NOT_FOUND
    );
    let mut other = connect(&running.api, running.https).await.unwrap();
    assert_eq!(
        other.post("/mutate", "x".repeat(20_000)).await.0,
        StatusCode::PAYLOAD_TOO_LARGE
    );
    assert_eq!(client.post("/mutate", review()).await.0, StatusCode::OK);
}

#[tokio::test]
async fn clients_that_are_slow_or_many_are_cut_off() {
    let limits = Limits {
        per_address: 2,
        handshake: Duration::from_millis(500),
        request: Duration::from_millis(500),
        idle: Duration::from_millis(500),
        ..limits()
    };
    let running = Running::ready(&Api::new(), limits).await;
    // No handshake, and over HTTP no request, or half of one.
    for (address, sent) in [
        (running.https, ""),
        (running.http, ""),
        (running.http, "GET /healthz HT"),
    ] {
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(sent.as_bytes()).await.unwrap();
        let mut rest = Vec::new();
        client.read_to_end(&mut rest).await.unwrap();
    }
    // A body that never comes.
    let mut slow = TcpStream::connect(running.http).await.unwrap();
    slow.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n")
        .await
        .unwrap();
    let mut rest = Vec::new();
    slow.read_to_end(&mut rest).await.unwrap();
    // Three of one address: the first, whose handshake is still waited for, makes place for the third.
    let limits = Limits {
        per_address: 2,
        handshake: Duration::from_mins(1),
        ..self::limits()
    };
    let running = Running::ready(&Api::new(), limits).await;
    let mut first = TcpStream::connect(running.https).await.unwrap();
    let _second = TcpStream::connect(running.https).await.unwrap();
    let _third = TcpStream::connect(running.https).await.unwrap();
    assert_eq!(first.read(&mut [0]).await.unwrap_or(0), 0);
}
