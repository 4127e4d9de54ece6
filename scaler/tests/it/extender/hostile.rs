//! Invalid requests.

use http::StatusCode;
use serde_json::{Value, json};
use tetris_scaler::extender::MAX_NODES;

use crate::extender::cluster::{args, cluster, extender, for_bert, labels, post};

#[tokio::test]
async fn requests_that_are_none_say_what_is_wrong() {
    let deep = format!("{{\"Pod\":{}", "[".repeat(100_000));
    let many: Vec<String> = (0..=MAX_NODES).map(|at| format!("n{at}")).collect();
    let cases = [
        (String::new(), "EOF"),
        ("[]".to_owned(), "ExtenderArgs"),
        (deep, "ExtenderArgs"),
        ("{}".to_owned(), "Pod"),
        (
            r#"{"Pod":{"metadata":7},"NodeNames":[]}"#.to_owned(),
            "invalid type",
        ),
        (
            r#"{"Pod":{},"Nodes":null,"NodeNames":null}"#.to_owned(),
            "neither",
        ),
        (
            args(
                &labels("bert"),
                &json!({"items": [{"metadata": {"name": "a"}}, {}]}),
                &Value::Null,
            ),
            "items[1]",
        ),
        (
            args(&labels("bert"), &Value::Null, &json!(many)),
            "at most 65536",
        ),
    ];
    for (body, says) in cases {
        let (status, text) = post(extender(cluster()), "/filter", body.clone()).await;
        assert_eq!(status, StatusCode::OK);
        let answer: Value = serde_json::from_str(&text).unwrap();
        let error = answer["Error"].as_str().unwrap();
        assert!(error.contains(says), "{error}");
        let (status, text) = post(extender(cluster()), "/prioritize", body).await;
        assert_eq!(status, StatusCode::BAD_REQUEST);
        assert!(text.contains(says), "{text}");
    }
}

#[tokio::test]
async fn requests_are_bounded_in_size_and_number() {
    let long = vec![b' '; (64 << 20) + 1];
    let (status, text) = post(extender(cluster()), "/filter", long).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
    assert!(text.contains("nodeCacheCapable"), "{text}");

    let (_, published) = tokio::sync::watch::channel(std::sync::Arc::new(cluster()));
    let none = tetris_scaler::extender::ExtenderLimits {
        requests: 0,
        ..Default::default()
    };
    let spread = tetris_scaler_core::Spread::default();
    let router = tetris_scaler::extender::router(published, spread, none);
    let (status, _) = post(router, "/filter", for_bert(&["warm"])).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test]
async fn only_posts_to_the_two_pages_are_answered() {
    let (status, _) = post(extender(cluster()), "/bind", "{}").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
}
