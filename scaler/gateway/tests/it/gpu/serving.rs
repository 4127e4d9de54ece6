//! Requests that are served: where, how often, and with which orders before them.

use std::time::Duration;

use super::executor::Executor;
use super::node::{Model, Node, Rules};
use super::{ask, available, infer, metric, pool, waiting};
use crate::client;
use crate::gateway::Gateway;
use hyper::StatusCode;

const MB: u64 = 1_000_000;

/// Models of 100 MB each; loads take 10 ms.
pub fn rules(gpus: usize, capacity_mb: u64, names: &[&str]) -> Rules {
    let model = |name: &&str| Model {
        name: (*name).to_owned(),
        parts: vec![(format!("part of {name}"), 100 * MB)],
        infer: Duration::from_millis(2),
        after_load: Duration::from_millis(2),
    };
    Rules {
        gpus,
        capacity_bytes: capacity_mb * MB,
        bytes_per_s: 10_000 * MB,
        peers: None,
        models: names.iter().map(model).collect(),
    }
}

/// Starts a node with executors, and a gateway for functions with the names of its models.
pub async fn start(rules: Rules, fields: &str, of_function: &str) -> (Gateway, Vec<Executor>) {
    let node = Node::start(rules);
    let mut executors = Vec::new();
    for gpu in 0..node.rules.gpus {
        executors.push(Executor::start(&node, gpu));
    }
    let shown: Vec<&Executor> = executors.iter().collect();
    let functions: Vec<(&str, &str)> = node
        .rules
        .models
        .iter()
        .map(|model| (model.name.as_str(), of_function))
        .collect();
    let gateway = Gateway::start(&pool(&shown, fields, &functions)).await;
    available(&gateway, executors.len() as u64).await;
    (gateway, executors)
}

#[tokio::test]
async fn a_miss_loads_the_model_and_a_hit_gives_no_orders() {
    let (gateway, executors) = start(rules(1, 500, &["a"]), "", "").await;
    for _ in 0..3 {
        assert_eq!(ask(&gateway, "a").await.status, StatusCode::OK);
    }
    assert_eq!(executors[0].orders(), ["load a"]);
    let of = |hit| format!("tetris_gateway_gpu_dispatches_total{{pool=\"main\",hit=\"{hit}\"}}");
    assert_eq!(metric(&gateway, &of("yes")).await, 2);
    assert_eq!(metric(&gateway, &of("no")).await, 1);
}

#[tokio::test]
async fn requests_go_to_the_gpu_that_has_their_model() {
    let (gateway, executors) = start(rules(2, 100, &["a", "b"]), "", "").await;
    // Both at once, so that they do not run on one GPU.
    let (a, b) = tokio::join!(ask(&gateway, "a"), ask(&gateway, "b"));
    assert_eq!((a.status, b.status), (StatusCode::OK, StatusCode::OK));
    for _ in 0..4 {
        ask(&gateway, "a").await;
        ask(&gateway, "b").await;
    }
    for executor in &executors {
        let served = executor.served();
        assert_eq!(served.len(), 5, "{served:?}");
        assert!(served.iter().all(|entry| *entry == served[0]), "{served:?}");
        assert_eq!(executor.orders().len(), 1);
    }
}

#[tokio::test]
async fn evicted_models_are_unloaded_before_the_load() {
    let (gateway, executors) = start(rules(1, 200, &["a", "b", "c"]), "", "").await;
    for name in ["a", "b", "a", "c"] {
        assert_eq!(ask(&gateway, name).await.status, StatusCode::OK, "{name}");
    }
    let orders = executors[0].orders();
    assert_eq!(orders[..2], ["load a", "load b"]);
    assert!(orders[2].starts_with("unload "), "{orders:?}");
    assert_eq!(orders[3], "load c");
}

#[tokio::test]
async fn a_gpu_has_one_request_at_a_time_and_the_others_wait_in_the_gateway() {
    let (gateway, executors) = start(rules(1, 500, &["a"]), "", "").await;
    executors[0].hold();
    let asking = (0..5).map(|_| tokio::spawn(client::send(gateway.address, infer("a"))));
    let asking: Vec<_> = asking.collect();
    executors[0].has(1).await;
    waiting(&gateway, "a", 4).await;
    executors[0].open();
    for entry in asking {
        assert_eq!(entry.await.unwrap().unwrap().status(), StatusCode::OK);
    }
    assert_eq!((executors[0].served().len(), executors[0].most()), (5, 1));
}

#[tokio::test]
async fn the_bytes_that_models_share_are_moved_once() {
    let mut shared = rules(1, 1_000, &["a", "b"]);
    for model in &mut shared.models {
        model.parts.push(("base".to_owned(), 400 * MB));
    }
    let (gateway, _executors) = start(shared, "", "").await;
    for name in ["a", "b"] {
        assert_eq!(ask(&gateway, name).await.status, StatusCode::OK);
    }
    let bytes = metric(
        &gateway,
        "tetris_gateway_gpu_load_bytes_total{pool=\"main\"}",
    )
    .await;
    assert_eq!(bytes, 600 * MB);
}

#[tokio::test]
async fn a_request_reaches_only_the_model_of_its_function() {
    let of_function = "model = \"a\"\nmodels = [\"public\"]";
    let node = Node::start(rules(1, 500, &["a", "b"]));
    let executor = Executor::start(&node, 0);
    let gateway = Gateway::start(&pool(&[&executor], "", &[("f", of_function)])).await;
    let status = |path: &'static str| {
        let address = gateway.address;
        async move {
            let request = hyper::Request::post(path).header("host", "gateway");
            let request = request.body(http_body_util::Full::default()).unwrap();
            client::whole(client::send(address, request).await.unwrap()).await
        }
    };
    for path in [
        "/functions/f/v2/models/a/infer",
        "/functions/f/v2/models/f/infer",
        "/functions/f/v2/models/public/infer",
        "/v2/models/public/infer",
    ] {
        let answer = status(path).await;
        assert_eq!(answer.status, StatusCode::OK, "{path}");
        assert!(answer.body.contains("\"a\""), "{}", answer.body);
    }
    for path in ["/functions/f/v2/models/b/infer", "/functions/f/v1/models"] {
        let answer = status(path).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{path}");
    }
    assert_eq!(executor.served().len(), 4);
}

#[tokio::test]
async fn functions_and_executors_can_be_added_while_requests_run() {
    let node = Node::start(rules(2, 500, &["a", "b"]));
    let first = Executor::start(&node, 0);
    let second = Executor::start(&node, 1);
    let gateway = Gateway::start(&pool(&[&first], "", &[("a", "")])).await;
    first.hold();
    let running = tokio::spawn(client::send(gateway.address, infer("a")));
    first.has(1).await;
    let text = pool(&[&first, &second], "", &[("a", ""), ("b", "")]);
    let has_b = |page: &serde_json::Value| page["functions"].as_array().unwrap().len() == 2;
    gateway.configure(&text, has_b).await;
    assert_eq!(ask(&gateway, "b").await.status, StatusCode::OK);
    assert_eq!(second.served(), ["b"]);
    first.open();
    assert_eq!(running.await.unwrap().unwrap().status(), StatusCode::OK);
}
