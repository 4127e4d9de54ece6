//! Pods of other owners that name their model: the nodes that they prefer.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use tetris_scaler::nodes::{NodeGpu, Room};
use tetris_scaler::operator::observed::Observed;
use tetris_scaler::operator::placing::{Memory, Step, steps};
use tetris_scaler::operator::records::PodRecord;
use tetris_scaler::resources::stored_object;
use tetris_scaler::state::Key;
use tetris_scaler_core::{Inventory, InventoryLimits, Settings};
use tetris_store_layout::ObjectId;

use crate::operator::world::{NAMESPACE, World, function, profile};

const MIB: u64 = 1 << 20;

/// A profile of four tensors of 100 MiB.
fn of_four_tensors() -> Value {
    let mut profile = profile("m");
    let objects = ["aa", "bb", "cc", "dd"];
    let objects = objects.map(|byte| json!({"id": byte.repeat(32), "bytes": 100 * MIB}));
    profile["spec"]["objects"] = json!(objects);
    profile
}

fn tensors() -> [ObjectId; 4] {
    ["aa", "bb", "cc", "dd"].map(|byte| stored_object(NAMESPACE, &byte.repeat(32).parse().unwrap()))
}

/// Nodes by number: 0 has no tensors; 1 has all, and no more room; 2 has two; 3 has none, and room for one in
/// the function's store; 4 has all and no free CPU; 5 has no known inventory.
fn observed(pods: &[Value]) -> Observed {
    let mut world = World::new(&[function("f", "m")], &[of_four_tensors()], 6);
    let busy = json!({
        "metadata": {"name": "busy", "namespace": "elsewhere"},
        "spec": {"nodeName": "node-4", "containers": [
            {"name": "main", "resources": {"requests": {"cpu": "16", "memory": "1Gi"}}},
        ]},
    });
    for pod in pods.iter().chain([&busy]) {
        let pod: Pod = serde_json::from_value(pod.clone()).unwrap();
        let record = PodRecord::read(&pod).unwrap();
        world.now.pods.insert(record.key.clone(), Arc::new(record));
    }
    world.see();
    let mut observed = world.observed();
    let mut inventory = Inventory::new(InventoryLimits::default());
    for (node, has) in [(0, 0), (1, 4), (2, 2), (3, 0), (4, 4)] {
        let tensors = tensors();
        inventory
            .set_node(&format!("node-{node}"), &tensors[..has])
            .unwrap();
    }
    observed.inventory = Arc::new(inventory);
    for (node, free, of_store) in [
        (0, 1 << 30, None),
        (1, 0, None),
        (2, 1 << 30, None),
        (3, 1 << 30, Some(100 * MIB)),
        (4, 0, None),
    ] {
        let stores = of_store.map(|bytes| (NAMESPACE.to_owned(), bytes));
        let room = Room {
            free_bytes: free,
            stores: stores.into_iter().collect(),
        };
        observed
            .rooms
            .insert(format!("node-{node}"), Arc::new(room));
    }
    observed
}

fn pod(name: &str, profile: &str, cpu: &str, spec: &Value) -> Value {
    let mut pod = json!({
        "metadata": {
            "name": name, "namespace": NAMESPACE, "uid": format!("uid-{name}"), "resourceVersion": "1",
            "annotations": {"tetris.dev/profile": profile},
        },
        "spec": {
            "schedulingGates": [{"name": "tetris.dev/placement"}],
            "containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}],
        },
    });
    for (key, value) in spec.as_object().into_iter().flatten() {
        pod["spec"][key] = value.clone();
    }
    pod
}

/// Preferred nodes with their weights, by name of the pod.
fn preferred(observed: &Observed, memory: &mut Memory) -> BTreeMap<String, Vec<(String, i32)>> {
    let steps = steps(observed, memory, &Settings::default(), 1_000);
    let preferred = steps.into_iter().map(|step| match step {
        Step::Prefer { pod, nodes, .. } => (pod.name, nodes),
        other => panic!("{other:?}"),
    });
    preferred.collect()
}

fn of_first(pods: &[Value]) -> Vec<(String, i32)> {
    let nodes = preferred(&observed(pods), &mut Memory::default());
    nodes.into_values().next().unwrap()
}

fn named(nodes: &[(&str, i32)]) -> Vec<(String, i32)> {
    let nodes = nodes.iter();
    nodes
        .map(|(name, weight)| ((*name).to_owned(), *weight))
        .collect()
}

#[test]
fn nodes_with_room_are_preferred_by_their_tensors() {
    let nodes = of_first(&[pod("a", "m", "1", &Value::Null)]);
    // Nine tenths for tensors, one for free resources. Node 3 has no room for three tensors, node 4 no
    // CPU, and of node 5 no tensors are known.
    assert_eq!(
        nodes,
        named(&[("node-1", 100), ("node-2", 55), ("node-0", 10)])
    );
}

#[test]
fn nodes_that_the_pod_does_not_select_are_left_out() {
    let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["node-1"]}]}],
    }}});
    let nodes = of_first(&[pod("a", "m", "1", &json!({"affinity": affinity}))]);
    assert_eq!(nodes, named(&[("node-2", 55), ("node-0", 10)]));
    let selector = json!({"nodeSelector": {"disk": "fast"}});
    assert_eq!(of_first(&[pod("a", "m", "1", &selector)]), []);
}

#[test]
fn pods_of_one_look_count_for_each_other() {
    let pods = ["a", "b", "c"].map(|name| pod(name, "m", "9", &Value::Null));
    let nodes = preferred(&observed(&pods), &mut Memory::default());
    let first = |name: &str| nodes[name].first().map(|(node, _)| node.as_str());
    assert_eq!(first("a"), Some("node-1"));
    assert_eq!(first("b"), Some("node-2"), "node-1 is full");
    assert_eq!(first("c"), Some("node-0"));
}

#[test]
fn a_pod_of_an_unknown_model_or_without_room_prefers_none() {
    for pod in [
        pod("a", "unknown", "1", &Value::Null),
        pod("a", "m", "17", &Value::Null),
    ] {
        assert_eq!(of_first(&[pod]), []);
    }
    let mut elsewhere = pod("a", "m", "1", &Value::Null);
    elsewhere["metadata"]["namespace"] = "elsewhere".into();
    assert_eq!(of_first(&[elsewhere]), []);
}

#[test]
fn gpus_count_with_their_tensors_and_their_room() {
    let mut profile = of_four_tensors();
    let configurations = profile["spec"]["configurations"].as_array_mut().unwrap();
    for configuration in configurations {
        configuration["gpuType"] = json!("Tesla T4");
        configuration["gpu"] = json!({"ownBytes": 300 * MIB, "inferenceMicros": 25_000});
    }
    let mut wants = function("f", "m");
    wants["spec"]["gpu"] = json!({"type": "Tesla T4"});
    let mut observed = observed(&[pod("a", "m", "1", &Value::Null)]);
    observed.functions = World::new(&[wants], &[profile], 0).observed().functions;
    let gpu = |kind: &str, own_bytes: u64, resident: usize| NodeGpu {
        uuid: "GPU".to_owned(),
        kind: kind.parse().unwrap(),
        own_bytes,
        capacity_bytes: 1 << 30,
        held_bytes: 0,
        resident: Arc::new(tensors()[..resident].iter().copied().collect()),
    };
    let of_node = [
        (0, gpu("Tesla T4", 100 * MIB, 0)),
        (1, gpu("Tesla T4", 1 << 30, 0)),
        (2, gpu("Tesla T4", 1 << 30, 4)),
        (4, gpu("NVIDIA A100-SXM4-80GB", 1 << 30, 4)),
    ];
    for (node, gpu) in of_node {
        observed
            .gpus
            .insert(format!("node-{node}"), Arc::new([gpu]));
    }
    let nodes = preferred(&observed, &mut Memory::default());
    // Node 2 has half of the model in the store and all of it on the GPU; node 1 all and none. Node 0 lacks
    // device memory, and the others have no GPU of this type.
    assert_eq!(nodes["a"], named(&[("node-2", 77), ("node-1", 55)]));
}

#[test]
fn only_gated_pods_without_a_function_are_of_other_owners() {
    let mut open = pod("open", "m", "1", &Value::Null);
    open["spec"]["schedulingGates"] = Value::Null;
    let mut unnamed = pod("unnamed", "m", "1", &Value::Null);
    unnamed["metadata"]["annotations"] = Value::Null;
    let mut instance = pod("instance", "m", "1", &Value::Null);
    instance["metadata"]["labels"] =
        json!({"tetris.dev/function": "f", "tetris.dev/configuration": "c1000-b1-p1"});
    for pod in [open, unnamed, instance] {
        let pod: Pod = serde_json::from_value(pod).unwrap();
        assert_eq!(PodRecord::read(&pod).unwrap().model_pod, None);
    }
}

#[test]
fn a_pod_is_put_off_until_the_watch_shows_it_and_one_look_has_a_bound() {
    let pods: Vec<Value> = (0..100)
        .map(|number| pod(&format!("pod-{number:03}"), "m", "10m", &Value::Null))
        .collect();
    let observed = observed(&pods);
    let mut memory = Memory::default();
    let first = preferred(&observed, &mut memory);
    assert_eq!(first.len(), 64);
    for name in first.keys() {
        memory.put_off(&format!("uid-{name}"), 3_000);
    }
    let second = preferred(&observed, &mut memory);
    assert_eq!(second.len(), 36);
    assert!(second.keys().all(|name| !first.contains_key(name)));
    assert!(Memory::has_work(&observed.pods));
    let key = Key::new(NAMESPACE, "pod-000");
    let mut without: BTreeMap<_, _> = observed.pods.as_ref().clone();
    without.retain(|other, _| *other == key);
    assert!(Memory::has_work(&without));
    without.clear();
    assert!(!Memory::has_work(&without));
}
