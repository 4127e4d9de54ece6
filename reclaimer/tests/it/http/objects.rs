//! The page of what is there, object by object.

use http::StatusCode;
use serde_json::Value;
use tetris_node::http::objects::{MAX_OBJECTS, MAX_OBJECTS_OF_NODE};
use tetris_node::report::{GpuStatus, GpuStoreStatus, NodeStatus, StoreStatus, StoredObject};

use crate::http::fixtures::{Daemon, node, object_ids, store};

const PAGE: &str = "/inventory/objects";

async fn page(status: NodeStatus) -> Value {
    Daemon::with(status).get(PAGE).await.json()
}

fn sorted(objects: &[StoredObject]) -> Vec<String> {
    let ids = objects.iter().map(|object| object.id.to_string());
    let mut ids: Vec<String> = ids.collect();
    ids.sort();
    ids
}

#[tokio::test]
async fn it_has_its_documented_shape() {
    let mut status = node();
    status.stores.truncate(1);
    status.stores[0].objects = object_ids(2);
    let ids = sorted(&object_ids(2));
    let answer = Daemon::with(status).get(PAGE).await;
    let expected = format!(
        r#"{{"version":1,"node":"node-1","stores":[{{"name":"a","id":"0123","usable":true,"mount":0,"capacity_bytes":1073741824,"free_bytes":1048576,"reclaimable_bytes":50,"truncated":false,"objects":["{}","{}"]}}],"kept":[{{"store":"shared","name":"llama","state":"pulling","done_bytes":30,"total_bytes":90,"bytes_per_second":15}}]}}"#,
        ids[0], ids[1]
    );
    assert_eq!(answer.text(), expected);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.header("tetris-observed-ms"), Some("1700000000500"));
}

#[tokio::test]
async fn gpus_have_their_room_and_their_objects_by_store() {
    let mut status = node();
    status.stores.clear();
    status.gpus = vec![GpuStatus {
        uuid: "GPU-0101".to_owned(),
        kind: "Tesla T4".to_owned(),
        usable: true,
        total_bytes: 2000,
        limit_bytes: 1200,
        capacity_bytes: 1000,
        created_bytes: 800,
        held_bytes: 600,
        models: 5,
        stores: vec![GpuStoreStatus {
            name: "a".to_owned(),
            objects: vec!["77aa".to_owned()],
        }],
    }];
    let expected = serde_json::json!([{
        "uuid": "GPU-0101", "type": "Tesla T4", "usable": true, "total_bytes": 2000, "limit_bytes": 1200,
        "capacity_bytes": 1000, "created_bytes": 800, "held_bytes": 600, "models": 5,
        "stores": [{"name": "a", "objects": ["77aa"]}],
    }]);
    assert_eq!(page(status).await["gpus"], expected);
}

#[tokio::test]
async fn a_limit_bounds_the_room_of_its_store() {
    for (limit, capacity, free) in [
        (None, 1 << 30, 1 << 20),
        (Some(u64::MAX), 1 << 30, 1 << 20),
        // 250 are of objects and 50 of records.
        (Some(1_000), 1_000, 700),
        (Some(300), 300, 0),
        (Some(100), 100, 0),
    ] {
        let mut status = node();
        status.stores[0].limit_bytes = limit;
        let stores = page(status).await["stores"].clone();
        assert_eq!(stores[0]["capacity_bytes"], capacity, "{limit:?}");
        assert_eq!(stores[0]["free_bytes"], free, "{limit:?}");
        assert_eq!(stores[1]["free_bytes"], 1 << 20, "the other has none");
    }
}

#[tokio::test]
async fn a_store_that_cannot_be_used_has_no_room_and_no_objects() {
    let mut status = node();
    status.stores[1] = StoreStatus {
        name: "c".to_owned(),
        error: Some("is not mounted".to_owned()),
        ..StoreStatus::default()
    };
    let store = page(status).await["stores"][1].clone();
    let expected = serde_json::json!({
        "name": "c", "id": null, "usable": false, "mount": null, "capacity_bytes": 0, "free_bytes": 0,
        "reclaimable_bytes": 0, "truncated": false, "objects": [],
    });
    assert_eq!(store, expected);
}

#[tokio::test]
async fn an_object_that_came_changes_the_tag() {
    let daemon = Daemon::with(node());
    let first = daemon.get(PAGE).await;
    let tag = first.header("etag").unwrap();
    let mut other = node();
    // Only their order is another.
    other.stores[0].objects = other.stores[0].objects.iter().rev().copied().collect();
    daemon.observed(other);
    let asked = [("if-none-match", tag)];
    let same = daemon.ask(http::Method::GET, PAGE, &asked).await;
    assert_eq!(same.status, StatusCode::NOT_MODIFIED);
    let mut more = node();
    more.stores[0].objects = object_ids(4);
    daemon.observed(more);
    let changed = daemon.ask(http::Method::GET, PAGE, &asked).await;
    assert_eq!(changed.status, StatusCode::OK);
    let listed = changed.json()["stores"][0]["objects"].clone();
    assert_eq!(listed, serde_json::json!(sorted(&object_ids(4))));
}

#[tokio::test]
async fn what_is_too_much_is_left_out_and_said() {
    let full = || StoreStatus {
        objects: object_ids(MAX_OBJECTS as u64 + 1),
        ..store("a")
    };
    let mut status = node();
    status.stores = vec![full(), full(), store("b")];
    let answer = page(status).await;
    let stores = answer["stores"].as_array().unwrap();
    let count = |store: &Value| store["objects"].as_array().unwrap().len();
    let counts: Vec<usize> = stores.iter().map(count).collect();
    assert_eq!(counts, [MAX_OBJECTS, MAX_OBJECTS, 0]);
    assert_eq!(counts.iter().sum::<usize>(), MAX_OBJECTS_OF_NODE);
    assert!(stores.iter().all(|store| store["truncated"] == true));
    let expected = sorted(&object_ids(MAX_OBJECTS as u64 + 1));
    assert_eq!(stores[0]["objects"][0], expected[0]);
    assert_eq!(
        stores[0]["objects"][MAX_OBJECTS - 1],
        expected[MAX_OBJECTS - 1]
    );
}

#[tokio::test]
async fn exactly_as_many_as_may_be_are_all() {
    let mut status = node();
    status.stores[0].objects = object_ids(MAX_OBJECTS as u64);
    let answer = page(status).await;
    assert_eq!(answer["stores"][0]["truncated"], false);
    assert_eq!(answer["stores"][1]["truncated"], false);
}
