//! Clients that send what engines must not get, or more than the gateway may hold.

use hyper::{Request, StatusCode};

use super::engine::{ASLEEP, AWAKE, Behavior, Engine, Obeys};
use crate::picker::data_plane::{Stream, head};
use tetris_gateway::picker::wire::BodyMode;

use super::{ask, body, completion, group, one_of, waiting};
use crate::gateway::Gateway;

#[tokio::test]
async fn no_path_that_controls_an_engine_reaches_it() {
    let (a, b) = (Engine::start("a", AWAKE), Engine::start("b", ASLEEP));
    for fields in ["", "paths = [\"/**\"]"] {
        let gateway = one_of(fields, &[("a", &a), ("b", &b)]).await;
        for path in [
            "/sleep?level=2",
            "/wake_up",
            "/functions/a/sleep",
            "/functions/a/sleep/",
            "/functions/a//sleep?level=1",
            "/functions/a/v1/../sleep",
            "/functions/a/%73leep",
            "/functions/b/wake_up?tags=weights",
            "/functions/b/collective_rpc",
            "/functions/b/v1/%2e%2e/wake_up",
        ] {
            let answer = ask(&gateway, body(path, "{\"model\": \"A\"}")).await;
            assert_eq!(answer.status, StatusCode::NOT_FOUND, "{path}");
        }
        let encoded = ask(&gateway, body("/functions/a/v1%2f..%2fsleep", "{}")).await;
        assert_eq!(encoded.status, StatusCode::BAD_REQUEST);
        assert_eq!(ask(&gateway, completion("A")).await.status, StatusCode::OK);
    }
    assert!(a.orders().is_empty() && b.orders().is_empty());
}

#[tokio::test]
async fn hostile_models_are_refused_with_short_answers() {
    let b = Engine::start("b", ASLEEP);
    let gateway = one_of("", &[("b", &b)]).await;
    let long = "m".repeat(1 << 20);
    let deep = format!("{{\"model\": \"B\", \"x\": {}", "[".repeat(1 << 20));
    for (text, status) in [
        (r#"{"model": "b"}"#.to_owned(), StatusCode::NOT_FOUND),
        (r#"{"model": ""}"#.to_owned(), StatusCode::NOT_FOUND),
        (r#"{"model": "../B"}"#.to_owned(), StatusCode::NOT_FOUND),
        (r#"{"model": "B\u0000"}"#.to_owned(), StatusCode::NOT_FOUND),
        (
            r#"{"model": "\u001b[31m\r\nx: y"}"#.to_owned(),
            StatusCode::NOT_FOUND,
        ),
        (format!("{{\"model\": \"{long}\"}}"), StatusCode::NOT_FOUND),
        (r#"{"model": 7}"#.to_owned(), StatusCode::BAD_REQUEST),
        (
            r#"{"model": "A", "model": "B"}"#.to_owned(),
            StatusCode::BAD_REQUEST,
        ),
        ("[]".to_owned(), StatusCode::BAD_REQUEST),
        (String::new(), StatusCode::BAD_REQUEST),
        (deep, StatusCode::BAD_REQUEST),
    ] {
        let shown: String = text.chars().take(60).collect();
        let answer = ask(&gateway, body("/v1/chat/completions", text)).await;
        assert_eq!(answer.status, status, "{shown}");
        assert!(answer.body.len() < 2_000, "{shown}");
    }
    let metrics = gateway.page("/metrics").await;
    assert!(!metrics.contains("mmmm") && b.orders().is_empty());
    let compressed = Request::post("/v1/completions")
        .header("host", "gateway")
        .header("content-encoding", "gzip");
    let compressed = compressed
        .body(http_body_util::Full::from(&b"\x1f\x8b"[..]))
        .unwrap();
    assert_eq!(
        ask(&gateway, compressed).await.status,
        StatusCode::BAD_REQUEST
    );
}

#[tokio::test]
async fn bodies_of_waiting_requests_count_in_the_budget_of_bodies() {
    let gated = Behavior {
        wakes: Obeys::Gated,
        ..ASLEEP
    };
    let b = Engine::start("b", gated);
    let limits = "[limits]\nbody = \"16KiB\"\nbodies = \"128KiB\"\n";
    let text = limits.to_owned() + &group("awake = 1", &[("b", b.address)]);
    let gateway = Gateway::start(&text).await;
    let large = || {
        let prompt = "x".repeat(15 << 10);
        body(
            "/v1/completions",
            format!("{{\"prompt\": \"{prompt}\", \"model\": \"B\"}}"),
        )
    };
    // A client, and an engine, has half of the budget at most while the other half is free.
    let waits = futures::future::join_all((0..4).map(|_| ask(&gateway, large())));
    let steps = async {
        waiting(&gateway, 4).await;
        let refused = ask(&gateway, large()).await;
        assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(refused.body.contains("limits.bodies"), "{}", refused.body);
        b.open_orders();
    };
    let (answers, ()) = tokio::join!(waits, steps);
    assert!(answers.iter().all(|answer| answer.status == StatusCode::OK));
}

#[tokio::test]
async fn a_data_plane_gets_no_engine_that_may_sleep() {
    let b = Engine::start("b", ASLEEP);
    let gateway = one_of("", &[("b", &b)]).await;
    let mut stream = Stream::open(gateway.picker, BodyMode::None, BodyMode::None).await;
    let refused = stream
        .refused(head("/functions/b/v1/completions", true), None)
        .await;
    assert_eq!(refused.status.unwrap().code, 503);
    assert!(b.orders().is_empty());
}
