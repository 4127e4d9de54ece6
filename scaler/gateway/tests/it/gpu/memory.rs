//! The gateway's record of memories, and the memories.

use hyper::StatusCode;
use std::time::Duration;

use super::executor::Executor;
use super::node::{Node, State};
use super::serving::rules;
use super::{ask, available, metric, pool};
use crate::gateway::Gateway;

const MISSES: &str = "tetris_gateway_gpu_dispatches_total{pool=\"main\",hit=\"no\"}";

#[tokio::test]
async fn models_that_are_there_at_the_start_are_hits() {
    let node = Node::start(rules(2, 500, &["a"]));
    node.load(1, node.model("a").unwrap()).unwrap();
    let executors = [Executor::start(&node, 0), Executor::start(&node, 1)];
    while node.state(1, "a") != Some(State::Resident) {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let text = pool(&[&executors[0], &executors[1]], "", &[("a", "")]);
    let gateway = Gateway::start(&text).await;
    available(&gateway, 2).await;
    assert_eq!(ask(&gateway, "a").await.status, StatusCode::OK);
    assert_eq!(
        (executors[1].served().len(), metric(&gateway, MISSES).await),
        (1, 0)
    );
}

#[tokio::test]
async fn models_that_vanish_are_loaded_again() {
    let node = Node::start(rules(1, 500, &["a", "b"]));
    let executor = Executor::start(&node, 0);
    let gateway = Gateway::start(&pool(&[&executor], "", &[("a", ""), ("b", "")])).await;
    assert_eq!(ask(&gateway, "a").await.status, StatusCode::OK);
    // As after a restart of the node's daemon.
    node.clear(0);
    loop {
        assert_eq!(ask(&gateway, "a").await.status, StatusCode::OK);
        if metric(&gateway, MISSES).await == 2 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
        node.clear(0);
    }
}

#[tokio::test]
async fn a_model_that_the_record_has_no_room_for_is_unloaded() {
    // LB counts the part that both have twice: one model fits by its record, both fit in fact.
    let mut both = rules(1, 350, &["a", "b"]);
    for model in &mut both.models {
        model.parts.push(("base".to_owned(), 100_000_000));
    }
    let node = Node::start(both);
    let executor = Executor::start(&node, 0);
    let policy = "[gpu_pool.main.policy]\nname = \"lb\"";
    let gateway = Gateway::start(&pool(&[&executor], policy, &[("a", ""), ("b", "")])).await;
    assert_eq!(ask(&gateway, "a").await.status, StatusCode::OK);
    node.load(0, node.model("b").unwrap()).unwrap();
    while executor.orders().len() < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(executor.orders(), ["load a", "unload b"]);
}
