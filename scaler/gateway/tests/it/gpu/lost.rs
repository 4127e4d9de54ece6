//! Executors that are lost, fail, or come back.

use std::time::Duration;

use hyper::StatusCode;

use super::executor::Executor;
use super::node::Node;
use super::serving::{rules, start};
use super::{ask, available, infer, metric, pool, until_metric, waiting};
use crate::client;
use crate::gateway::Gateway;

const GIVEN_BACK: &str = "tetris_gateway_gpu_given_back_total{pool=\"main\"}";
const LOST: &str = "tetris_gateway_gpu_executors_lost_total{pool=\"main\"}";

/// Sends requests for a function until the one executor has one, and returns all.
async fn hold_one(
    gateway: &Gateway,
    executor: &Executor,
    function: &'static str,
) -> tokio::task::JoinHandle<hyper::Result<hyper::Response<hyper::body::Incoming>>> {
    executor.hold();
    let asking = tokio::spawn(client::send(gateway.address, infer(function)));
    executor.has(1).await;
    asking
}

#[tokio::test]
async fn a_request_that_was_sent_is_not_repeated_unless_its_function_is_idempotent() {
    for (of_function, status) in [
        ("", StatusCode::BAD_GATEWAY),
        ("idempotent = true", StatusCode::OK),
    ] {
        let node = Node::start(rules(2, 500, &["a"]));
        let first = Executor::start(&node, 0);
        let gateway = Gateway::start(&pool(&[&first], "", &[("a", of_function)])).await;
        available(&gateway, 1).await;
        let asking = hold_one(&gateway, &first, "a").await;
        let second = Executor::start(&node, 1);
        let text = pool(&[&first, &second], "", &[("a", of_function)]);
        gateway.configure(&text, |_| true).await;
        available(&gateway, 2).await;
        let _port = first.kill().await;
        let answer = asking.await.unwrap().unwrap();
        assert_eq!(answer.status(), status, "{of_function}");
        let served = usize::from(status == StatusCode::OK);
        assert_eq!(second.served().len(), served);
    }
}

#[tokio::test]
async fn waiting_requests_of_a_killed_executor_are_served_by_others() {
    let (gateway, mut executors) = start(rules(2, 500, &["a"]), "", "").await;
    let on = loop {
        ask(&gateway, "a").await;
        if let Some(on) = executors
            .iter()
            .position(|executor| !executor.served().is_empty())
        {
            break on;
        }
    };
    let first = executors.remove(on);
    let running = hold_one(&gateway, &first, "a").await;
    let asking: Vec<_> = (0..6)
        .map(|_| tokio::spawn(client::send(gateway.address, infer("a"))))
        .collect();
    first.has(1).await;
    let _port = first.kill().await;
    for entry in asking {
        assert_eq!(entry.await.unwrap().unwrap().status(), StatusCode::OK);
    }
    assert_eq!(
        running.await.unwrap().unwrap().status(),
        StatusCode::BAD_GATEWAY
    );
    until_metric(&gateway, LOST, 1).await;
    assert!(executors[0].served().len() >= 6);
}

#[tokio::test]
async fn an_executor_that_comes_back_gets_requests_and_its_memory_counts_as_empty() {
    let (gateway, mut executors) = start(rules(1, 500, &["a"]), "", "").await;
    assert_eq!(ask(&gateway, "a").await.status, StatusCode::OK);
    let node = Node::start(rules(1, 500, &["a"]));
    let port = executors.pop().unwrap().kill().await;
    available(&gateway, 0).await;
    let asking = tokio::spawn(client::send(gateway.address, infer("a")));
    waiting(&gateway, "a", 1).await;
    let again = Executor::on(port, &node, 0);
    assert_eq!(asking.await.unwrap().unwrap().status(), StatusCode::OK);
    assert_eq!(again.orders(), ["load a"]);
}

#[tokio::test]
async fn a_load_that_an_executor_refuses_sends_the_request_to_another() {
    let (gateway, executors) = start(rules(2, 500, &["a", "b"]), "", "").await;
    executors[0].refuse_loads(true);
    for name in ["a", "b", "a", "b"] {
        assert_eq!(ask(&gateway, name).await.status, StatusCode::OK);
    }
    assert!(executors[0].served().is_empty());
    assert_eq!(executors[1].served().len(), 4);
}

#[tokio::test]
async fn a_full_node_refuses_in_time_and_serves_again_when_there_is_room() {
    let (gateway, executors) = start(rules(1, 500, &["a"]), "", "slo = \"500ms\"").await;
    executors[0].refuse_loads(true);
    let refused = ask(&gateway, "a").await;
    assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(metric(&gateway, GIVEN_BACK).await > 0);
    executors[0].refuse_loads(false);
    loop {
        let answer = ask(&gateway, "a").await;
        if answer.status == StatusCode::OK {
            break;
        }
        assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
