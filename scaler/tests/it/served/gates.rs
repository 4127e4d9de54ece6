//! Tests that gates open: narrowed to a node, or after a time, without.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use tetris_scaler::gates::{Closed, Keeper};
use tetris_scaler::metrics::Metrics;
use tetris_scaler::placement::{Gate, Opened, assigned_node, open};
use tetris_scaler::state::Key;

use crate::served::api::Api;

const PATH: &str = "/api/v1/namespaces/blue/pods/one";
const AFTER: Duration = Duration::from_secs(8);

fn pod(spec: &Value) -> Value {
    json!({
        "metadata": {
            "name": "one", "namespace": "blue", "uid": "u",
            "labels": {"tetris.dev/function": "f", "tetris.dev/configuration": "c1-b1-p1"},
        },
        "spec": spec,
    })
}

fn gated() -> Value {
    pod(&json!({"containers": [], "schedulingGates": [{"name": "tetris.dev/placement"}]}))
}

/// Stores the pod, and returns it as the API server has it.
fn stored(api: &Api, pod: Value) -> Pod {
    let (_, pod) = api.with(|state| state.store(PATH, pod));
    serde_json::from_value(pod).unwrap()
}

fn now(api: &Api) -> Pod {
    let pod = api.with(|state| state.objects[PATH].clone());
    serde_json::from_value(pod).unwrap()
}

fn key() -> Key {
    Key::new("blue", "one")
}

#[tokio::test]
async fn an_open_pod_is_narrowed_and_keeps_what_it_had() {
    let terms = json!([
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]},
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]},
    ]);
    let preferred = json!([{"weight": 3, "preference": {"matchExpressions": [{"key": "x", "operator": "Exists"}]}}]);
    let api = Api::default();
    let pod = pod(&json!({
        "containers": [],
        "schedulingGates": [{"name": "example.com/other"}, {"name": "tetris.dev/placement"}],
        "affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms},
            "preferredDuringSchedulingIgnoredDuringExecution": preferred,
        }},
    }));
    let gate = Gate::read(&stored(&api, pod)).unwrap();
    let opened = open(&api.client(), &key(), gate.opening(Some("node-1"), None)).await;
    assert_eq!(opened.unwrap(), Opened::Done);
    let spec = now(&api).spec.unwrap();
    assert_eq!(assigned_node(&spec), Some("node-1"));
    let gates = spec.scheduling_gates.unwrap();
    assert_eq!(gates.len(), 1);
    assert_eq!(gates[0].name, "example.com/other");
    let nodes = spec.affinity.unwrap().node_affinity.unwrap();
    let found = nodes
        .required_during_scheduling_ignored_during_execution
        .unwrap()
        .node_selector_terms;
    let field = json!([{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]);
    for (found, before) in found.iter().zip(terms.as_array().unwrap()) {
        let term = serde_json::to_value(found).unwrap();
        assert_eq!(term["matchExpressions"], before["matchExpressions"]);
        assert_eq!(term["matchFields"], field);
    }
    assert_eq!(found.len(), 2);
    let kept = nodes.preferred_during_scheduling_ignored_during_execution;
    assert_eq!(serde_json::to_value(kept).unwrap(), preferred);
}

#[tokio::test]
async fn a_pod_of_another_owner_prefers_nodes_beside_its_own_terms() {
    let preference = json!([{"weight": 3, "preference": {"matchExpressions": [{"key": "x", "operator": "Exists"}]}}]);
    for own in [json!([]), preference] {
        let api = Api::default();
        let affinity =
            json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": own}});
        let pod = pod(&json!({
            "containers": [],
            "schedulingGates": [{"name": "tetris.dev/placement"}],
            "affinity": affinity,
        }));
        let gate = Gate::read(&stored(&api, pod)).unwrap();
        let nodes = [("node-1".to_owned(), 91), ("node-2".to_owned(), 9)];
        let opened = open(&api.client(), &key(), gate.preferring(&nodes)).await;
        assert_eq!(opened.unwrap(), Opened::Done);
        let spec = now(&api).spec.unwrap();
        assert_eq!(spec.scheduling_gates, None);
        assert_eq!(assigned_node(&spec), None);
        let terms = spec.affinity.unwrap().node_affinity.unwrap();
        let named = |node: &str, weight: i32| json!({"weight": weight, "preference": {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}});
        let mut expected = own.as_array().unwrap().clone();
        expected.extend([named("node-1", 91), named("node-2", 9)]);
        let preferred = terms.preferred_during_scheduling_ignored_during_execution;
        assert_eq!(
            serde_json::to_value(preferred).unwrap(),
            Value::from(expected)
        );
        assert_eq!(
            terms.required_during_scheduling_ignored_during_execution,
            None
        );
    }
    // Without a node that has room, nothing is written but the gate.
    let api = Api::default();
    let gate = Gate::read(&stored(&api, gated())).unwrap();
    let opened = open(&api.client(), &key(), gate.preferring(&[])).await;
    assert_eq!(opened.unwrap(), Opened::Done);
    assert_eq!(now(&api).spec.unwrap().affinity, None);
}

#[test]
fn an_affinity_that_is_too_long_is_not_kept_and_its_pod_is_opened_as_it_is() {
    let of_values = |count: usize| {
        let values = vec!["x".repeat(60); count];
        let term =
            json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": values}]});
        let required = json!({"nodeSelectorTerms": [term]});
        let nodes = json!({"requiredDuringSchedulingIgnoredDuringExecution": required});
        let mut pod = pod(&json!({
            "containers": [],
            "schedulingGates": [{"name": "tetris.dev/placement"}],
            "affinity": {"nodeAffinity": nodes},
        }));
        pod["metadata"]["resourceVersion"] = "1".into();
        Gate::read(&serde_json::from_value(pod).unwrap()).unwrap()
    };
    let nodes = [("n".to_owned(), 50)];
    let (short, long) = (of_values(100), of_values(1_000));
    assert!(!short.is_too_long() && long.is_too_long());
    assert!(short.opening(Some("n"), None)["spec"]["affinity"].is_object());
    assert!(short.preferring(&nodes)["spec"]["affinity"].is_object());
    for patch in [long.opening(Some("n"), None), long.preferring(&nodes)] {
        assert_eq!(patch["spec"], json!({"schedulingGates": null}));
    }
    assert!(format!("{long:?}").len() < 1_000);
}

#[tokio::test]
async fn a_pod_that_changed_meanwhile_is_left_alone() {
    let api = Api::default();
    let gate = Gate::read(&stored(&api, gated())).unwrap();
    stored(&api, gated());
    let client = api.client();
    let opened = open(&client, &key(), gate.opening(Some("node-1"), None)).await;
    assert_eq!(opened.unwrap(), Opened::Outdated);
    assert!(Gate::read(&now(&api)).is_some());
    api.with(|state| state.objects.clear());
    let opened = open(&client, &key(), gate.opening(None, None)).await;
    assert_eq!(opened.unwrap(), Opened::Outdated, "it is gone");
}

#[test]
fn only_a_single_node_is_an_assigned_one() {
    let spec = |terms: Value| {
        let required = json!({"nodeSelectorTerms": terms});
        let nodes = json!({"requiredDuringSchedulingIgnoredDuringExecution": required});
        let spec = json!({"containers": [], "affinity": {"nodeAffinity": nodes}});
        serde_json::from_value(spec).unwrap()
    };
    let named = |names: Value| json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": names}]});
    let node_of = |names: Value| assigned_node(&spec(json!([named(names)]))).map(str::to_owned);
    assert_eq!(node_of(json!(["a"])), Some("a".to_owned()));
    assert_eq!(node_of(json!(["a", "b"])), None);
    for terms in [
        json!([]),
        json!([named(json!(["a"])), named(json!(["b"]))]),
        json!([named(json!(["a"])), {}]),
        json!([{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["a"]}]}]),
    ] {
        assert_eq!(assigned_node(&spec(terms)), None);
    }
}

fn seen(pod: &Pod) -> BTreeMap<Key, Arc<Closed>> {
    let closed = Closed::read(pod).map(|losed| (key(), Arc::new(losed)));
    closed.into_iter().collect()
}

#[tokio::test(start_paused = true)]
async fn a_gate_that_stays_closed_is_opened_without_a_node() {
    let api = Api::default();
    let metrics = Arc::new(Metrics::of_gates());
    let mut keeper = Keeper::new(api.client(), Arc::clone(&metrics), AFTER);
    let pod = stored(&api, gated());
    assert_eq!(keeper.round(&seen(&pod)).await, 0);
    tokio::time::advance(Duration::from_millis(7_999)).await;
    assert_eq!(keeper.round(&seen(&pod)).await, 0);
    api.with(|state| assert!(state.asked.is_empty()));
    tokio::time::advance(Duration::from_millis(1)).await;
    assert_eq!(keeper.round(&seen(&pod)).await, 1);
    let open = now(&api);
    assert!(Closed::read(&open).is_none());
    assert_eq!(assigned_node(open.spec.as_ref().unwrap()), None);
    let page = metrics.encode().unwrap();
    let line = "tetris_scaler_gates_opened_total{reason=\"timeout\"} 1";
    assert!(page.contains(line), "{page}");
    assert!(!page.contains("tetris_scaler_leader"), "{page}");
}

#[tokio::test(start_paused = true)]
async fn a_missing_right_is_tried_again_and_stops_no_other_pod() {
    let api = Api::default();
    let mut keeper = Keeper::new(api.client(), Arc::new(Metrics::of_gates()), AFTER);
    let pod = stored(&api, gated());
    keeper.round(&seen(&pod)).await;
    tokio::time::advance(AFTER).await;
    api.with(|state| state.fails_with = Some(403));
    assert_eq!(keeper.round(&seen(&pod)).await, 0);
    let asked = |api: &Api| api.with(|state| state.asked.len());
    assert_eq!(asked(&api), 1);
    assert_eq!(keeper.round(&seen(&pod)).await, 0);
    assert_eq!(asked(&api), 1, "it is put off");
    api.with(|state| state.fails_with = None);
    tokio::time::advance(Duration::from_secs(2)).await;
    assert_eq!(keeper.round(&seen(&pod)).await, 1);
}

#[test]
fn pods_of_others_stay_closed() {
    let mut theirs = gated();
    theirs["metadata"]["labels"] = json!({"app": "x"});
    let open = pod(&json!({"containers": []}));
    let other = pod(&json!({"containers": [], "schedulingGates": [{"name": "example.com/other"}]}));
    let closed = |mut pod: Value| {
        pod["metadata"]["resourceVersion"] = "1".into();
        Closed::read(&serde_json::from_value(pod).unwrap())
    };
    for pod in [theirs.clone(), open, other] {
        assert_eq!(closed(pod), None);
    }
    theirs["metadata"]["annotations"] = json!({"tetris.dev/profile": "m"});
    assert!(closed(theirs).is_some(), "a pod that names its model");
}
