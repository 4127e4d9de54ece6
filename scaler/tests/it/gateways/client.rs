//! Tests of the client against gateways over HTTP.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::ConnectInfo;
use axum::http::StatusCode;
use axum::routing::get;
use tetris_scaler::gateways::{Gateway, GatewayClient, GatewayProblem};
use tokio::net::TcpListener;

const PAGE: &str = r#"{"version":1,"gateway":"a","started_ms":7,"at_ms":9,"functions":[]}"#;

type Peers = Arc<Mutex<BTreeSet<SocketAddr>>>;

/// Serves `answer`; returns the gateway, and the addresses of its clients' connections.
async fn serve(status: u16, answer: String) -> (Gateway, Peers) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let peers = Peers::default();
    let seen = Arc::clone(&peers);
    let loads = async move |ConnectInfo(peer): ConnectInfo<SocketAddr>| {
        seen.lock().unwrap().insert(peer);
        (StatusCode::from_u16(status).unwrap(), answer)
    };
    let router = Router::new().route("/loads", get(loads));
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, service).await });
    let gateway = Gateway {
        pod: "a".to_owned(),
        address,
        is_ready: true,
    };
    (gateway, peers)
}

fn client() -> GatewayClient {
    drop(rustls::crypto::ring::default_provider().install_default());
    GatewayClient::try_new().unwrap()
}

#[tokio::test]
async fn one_connection_serves_all_polls() {
    let (gateway, peers) = serve(200, PAGE.to_owned()).await;
    let client = client();
    for _ in 0..10 {
        let page = client.loads(&gateway).await.unwrap();
        assert_eq!((page.started_ms, page.at_ms), (7, 9));
    }
    assert_eq!(peers.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn an_invalid_answer_is_an_error_that_names_the_gateway() {
    let client = client();
    let mut errors = Vec::new();
    for (status, answer) in [
        (200, "[]".to_owned()),
        (200, PAGE.replace("\"a\"", "\"b\"")),
        (200, " ".repeat((4 << 20) + 1)),
        (404, PAGE.to_owned()),
        (307, PAGE.to_owned()),
    ] {
        let (gateway, _peers) = serve(status, answer).await;
        let error = client.loads(&gateway).await.unwrap_err();
        assert_eq!((&*error.gateway, error.address), ("a", gateway.address));
        assert!(error.to_string().contains("gateway a at"), "{error}");
        errors.push(error.class());
    }
    let (malformed, status) = ("gateway_malformed", "gateway_status");
    assert_eq!(errors, [malformed, malformed, malformed, status, status]);
}

#[tokio::test]
async fn a_gateway_without_a_server_is_unreachable() {
    let (gateway, _peers) = serve(200, PAGE.to_owned()).await;
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let gateway = Gateway {
        address: closed.local_addr().unwrap(),
        ..gateway
    };
    drop(closed);
    let error = client().loads(&gateway).await.unwrap_err();
    assert!(
        matches!(error.problem, GatewayProblem::Unreachable(_)),
        "{error}"
    );
}
