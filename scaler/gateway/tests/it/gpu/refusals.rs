//! Requests that are refused, and when a client may try again.

use hyper::StatusCode;
use hyper::header::RETRY_AFTER;

use super::serving::{rules, start};
use super::{ask, available, infer, until_metric, waiting};
use crate::client;
use crate::gateway::Gateway;
use crate::port::Port;

#[tokio::test]
async fn a_full_queue_refuses() {
    let (gateway, executors) = start(rules(1, 500, &["a"]), "queue = 1", "").await;
    executors[0].hold();
    let running = tokio::spawn(client::send(gateway.address, infer("a")));
    executors[0].has(1).await;
    let waits = tokio::spawn(client::send(gateway.address, infer("a")));
    waiting(&gateway, "a", 1).await;
    let refused = ask(&gateway, "a").await;
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
    assert!(refused.headers.contains_key(RETRY_AFTER));
    executors[0].open();
    for entry in [running, waits] {
        assert_eq!(entry.await.unwrap().unwrap().status(), StatusCode::OK);
    }
}

#[tokio::test]
async fn a_request_that_cannot_be_in_time_is_refused_with_the_estimate() {
    let (gateway, executors) = start(rules(1, 500, &["a"]), "", "slo = \"50ms\"").await;
    executors[0].hold();
    let running = tokio::spawn(client::send(gateway.address, infer("a")));
    executors[0].has(1).await;
    // The GPU does not become free: it is refused when 40 ms have passed, not when it gave up.
    let refused = ask(&gateway, "a").await;
    assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(refused.headers.contains_key(RETRY_AFTER));
    assert!(
        refused.body.contains("expected 50000 at most"),
        "{}",
        refused.body
    );
    until_metric(&gateway, "tetris_gateway_gpu_late_total{pool=\"main\"}", 1).await;
    executors[0].open();
    assert_eq!(running.await.unwrap().unwrap().status(), StatusCode::OK);
}

#[tokio::test]
async fn a_request_waits_no_longer_than_it_may_and_its_client_can_leave() {
    let policy = "[gpu_pool.main.policy]\nname = \"lb\"";
    let (gateway, executors) = start(rules(1, 500, &["a"]), policy, "wait = \"100ms\"").await;
    executors[0].hold();
    let running = tokio::spawn(client::send(gateway.address, infer("a")));
    executors[0].has(1).await;
    let expired = ask(&gateway, "a").await;
    assert_eq!(expired.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(expired.body.contains("1 take requests"), "{}", expired.body);
    let left = tokio::spawn(client::send(gateway.address, infer("a")));
    waiting(&gateway, "a", 1).await;
    left.abort();
    waiting(&gateway, "a", 0).await;
    executors[0].open();
    assert_eq!(running.await.unwrap().unwrap().status(), StatusCode::OK);
    assert_eq!(executors[0].served().len(), 1);
}

#[tokio::test]
async fn a_model_that_no_executor_serves_or_no_gpu_can_hold_is_refused() {
    let (gateway, executors) = start(rules(1, 90, &["a", "b"]), "", "").await;
    executors[0].do_without("b");
    loop {
        let refused = ask(&gateway, "b").await;
        assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
        if refused.body.contains("none of the pool's 1 executors") {
            break;
        }
        // The gateway has not heard of it yet.
        assert!(refused.body.contains("100000000 bytes"), "{}", refused.body);
    }
    let refused = ask(&gateway, "a").await;
    assert!(
        refused.body.contains("expected 90000000 at most"),
        "{}",
        refused.body
    );
}

#[tokio::test]
async fn without_an_executor_requests_wait_for_one() {
    let port = Port::take();
    let address = port.address;
    let node = super::node::Node::start(rules(1, 500, &["a"]));
    let text = format!(
        "[gpu_pool.main]\nexecutors = [\"{address}\"]\npoll = \"20ms\"\n[gpu_pool.main.function.a]\nslo = \"60s\"\nlatency = \"10ms\"\n"
    );
    let gateway = Gateway::start(&text).await;
    let asking = tokio::spawn(client::send(gateway.address, infer("a")));
    waiting(&gateway, "a", 1).await;
    let _executor = super::executor::Executor::on(port, &node, 0);
    available(&gateway, 1).await;
    assert_eq!(asking.await.unwrap().unwrap().status(), StatusCode::OK);
}
