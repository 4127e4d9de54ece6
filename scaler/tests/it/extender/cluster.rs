//! A cluster, and requests of the scheduler.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use http::{Request, StatusCode};
use serde_json::{Value, json};
use tetris_scaler::extender::{ExtenderLimits, router};
use tetris_scaler::state::Snapshot;
use tetris_scaler_core::{Inventory, InventoryLimits, NodeView, Resources, Spread};
use tetris_store_layout::ObjectId;
use tokio::sync::watch;
use tower::ServiceExt as _;

use crate::snapshot::{NAMESPACE, snapshot};

/// Creates the function `bert` with a model of four tensors of 100 MiB, and its nodes. `warm` has
/// all tensors, `half` two, `cold` none, `full` none, and room for one in the function's store; `busy` has all and no free
/// CPU. `silent` has no known inventory.
pub fn cluster() -> Snapshot {
    let mut snapshot = snapshot(&[("bert", "Operator")]);
    let state = snapshot.functions.values().next().unwrap();
    let ids: Vec<ObjectId> = state
        .model
        .tensors
        .objects()
        .iter()
        .map(|(id, _)| *id)
        .collect();
    let mut inventory = Inventory::new(InventoryLimits::default());
    for (name, has) in [
        ("warm", 4),
        ("half", 2),
        ("cold", 0),
        ("full", 0),
        ("busy", 4),
    ] {
        inventory.set_node(name, &ids[..has]).unwrap();
    }
    snapshot.inventory = Arc::new(inventory);
    snapshot.nodes = [
        node("warm", 8_000, Some(0)),
        node("half", 8_000, Some(1 << 30)),
        node("cold", 8_000, Some(1 << 30)),
        NodeView {
            stores: [("serving".to_owned(), 100 << 20)].into(),
            ..node("full", 8_000, Some(1 << 30))
        },
        node("busy", 0, Some(0)),
        node("silent", 8_000, None),
    ]
    .into();
    snapshot
}

pub fn node(name: &str, free_millis: u64, tensor_bytes: Option<u64>) -> NodeView {
    let all = Resources {
        cpu_millis: 8_000,
        memory_bytes: 16 << 30,
    };
    NodeView {
        name: name.to_owned(),
        all,
        free: Resources {
            cpu_millis: free_millis,
            ..all
        },
        tensor_bytes,
        stores: BTreeMap::new(),
        gpus: Vec::new(),
        gpus_only: false,
        accepts_new: true,
    }
}

pub fn extender(snapshot: Snapshot) -> Router {
    let (_, published) = watch::channel(Arc::new(snapshot));
    router(published, Spread::default(), ExtenderLimits::default())
}

/// Returns a request of kube-scheduler: `ExtenderArgs` as Go writes it, of a pod with the fields
/// that a pod has before it is bound.
pub fn args(metadata: &Value, nodes: &Value, names: &Value) -> String {
    let mut pod: Value =
        serde_json::from_str(include_str!("files/pod.json")).expect("the recorded pod");
    for (key, value) in metadata.as_object().unwrap() {
        pod["metadata"][key] = value.clone();
    }
    json!({"Pod": pod, "Nodes": nodes, "NodeNames": names}).to_string()
}

/// Returns a request for an instance of `bert`, with names of nodes.
pub fn for_bert(names: &[&str]) -> String {
    args(&labels("bert"), &Value::Null, &json!(names))
}

pub fn labels(function: &str) -> Value {
    json!({"namespace": NAMESPACE, "labels": {"app": "x", "tetris.dev/function": function}})
}

/// Returns status and text of the answer.
pub async fn post(router: Router, path: &str, body: impl Into<Body>) -> (StatusCode, String) {
    let request = Request::post(path).header("Content-Type", "application/json");
    let request = request.body(body.into()).unwrap();
    let answer = router.oneshot(request).await.unwrap();
    let status = answer.status();
    let body = to_bytes(answer.into_body(), usize::MAX).await.unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

/// Returns the answer as JSON.
pub async fn ask(path: &str, body: String) -> Value {
    let (status, text) = post(extender(cluster()), path, body).await;
    assert_eq!(status, StatusCode::OK, "{text}");
    serde_json::from_str(&text).unwrap()
}
