//! Functions on GPUs: their pods, and the GPUs that these get.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use tetris_scaler::nodes::NodeGpu;
use tetris_scaler::operator::placing::Step;
use tetris_scaler::operator::plan::Action;
use tetris_scaler::resources::stored_object;
use tetris_scaler::state::Key;

use crate::operator::world::{NAMESPACE, World, function, profile};

const T4: &str = "Tesla T4";

/// A profile with one configuration on a T4, which takes half of its time, beside those without a GPU.
fn on_gpu() -> Value {
    let mut profile = profile("m");
    let all = profile["spec"]["configurations"].as_array_mut().unwrap();
    let mut configuration = all[0].clone();
    configuration["gpuType"] = json!(T4);
    configuration["gpu"] = json!({"ownBytes": 300 << 20, "inferenceMicros": 25_000});
    all.push(configuration);
    profile
}

fn wants_gpu() -> Value {
    let mut function = function("f", "m");
    function["spec"]["gpu"] = json!({"type": T4});
    function
}

fn gpu(node: usize, number: usize, resident: bool) -> NodeGpu {
    let id = "ab".repeat(32).parse().unwrap();
    let id = stored_object(NAMESPACE, &id);
    NodeGpu {
        uuid: format!("GPU-{node}-{number}"),
        kind: T4.parse().unwrap(),
        own_bytes: 4 << 30,
        capacity_bytes: 1 << 30,
        held_bytes: 0,
        resident: Arc::new(resident.then_some(id).into_iter().collect()),
    }
}

/// Four nodes, of which the last two have two GPUs each; the model is on the last GPU.
fn world(function: Value, milli_rps: u64) -> World {
    let mut world = World::new(&[function], &[on_gpu()], 4);
    for node in [2, 3] {
        let gpus = [0, 1].map(|number| gpu(node, number, (node, number) == (3, 1)));
        world
            .now
            .gpus
            .insert(format!("node-{node}"), Arc::new(gpus));
    }
    world.see();
    world.loads.insert(Key::new(NAMESPACE, "f"), milli_rps);
    world
}

fn template(world: &mut World) -> Value {
    let plan = world.plan();
    let mut actions = plan.functions.iter().flat_map(|function| &function.actions);
    let template = actions.find_map(|action| match action {
        Action::Apply { object, .. } => Some(object["spec"]["template"].clone()),
        _ => None,
    });
    template.unwrap()
}

#[test]
fn the_pod_gets_a_device_without_a_claim() {
    let pods = template(&mut world(wants_gpu(), 10_000));
    assert_eq!(
        pods["metadata"]["labels"]["tetris.dev/configuration"],
        "c1000-b1-p1-tesla-t4"
    );
    assert_eq!(
        pods["metadata"]["annotations"],
        json!({"tetris.dev/gpu": "all"})
    );
    assert_eq!(pods["spec"]["runtimeClassName"], "nvidia");
    let tolerations = json!([{"key": "nvidia.com/gpu", "operator": "Exists"}]);
    assert_eq!(pods["spec"]["tolerations"], tolerations);
    let container = &pods["spec"]["containers"][0];
    let bytes = (300_u64 << 20).to_string();
    let env = container["env"].as_array().unwrap();
    assert_eq!(
        json!(env[3..]),
        json!([
            {"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['tetris.dev/gpu']"}}},
            {"name": "TETRIS_GPU_OWN_BYTES", "value": bytes},
            {"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "compute,utility"},
        ])
    );
    let resources = container["resources"].to_string();
    assert!(!resources.contains("nvidia"), "{resources}");
    let typed: k8s_openapi::api::core::v1::PodTemplateSpec = serde_json::from_value(pods).unwrap();
    assert_eq!(
        typed.spec.unwrap().runtime_class_name.as_deref(),
        Some("nvidia")
    );
}

#[test]
fn a_function_may_ask_for_more_memory_and_another_runtime() {
    let mut wants = wants_gpu();
    wants["spec"]["gpu"] = json!({"ownBytes": 2_u64 << 30, "runtimeClass": "nvidia-cdi"});
    let pods = template(&mut world(wants.clone(), 10_000));
    assert_eq!(pods["spec"]["runtimeClassName"], "nvidia-cdi");
    let bytes = (2_u64 << 30).to_string();
    assert_eq!(pods["spec"]["containers"][0]["env"][4]["value"], bytes);
    // The template's own settings stay.
    wants["spec"]["template"]["spec"]["runtimeClassName"] = json!("mine");
    let variable = json!({"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "all"});
    wants["spec"]["template"]["spec"]["containers"][0]["env"] = json!([variable]);
    let pods = template(&mut world(wants, 10_000));
    assert_eq!(pods["spec"]["runtimeClassName"], "mine");
    let env = pods["spec"]["containers"][0]["env"].to_string();
    assert_eq!(
        env.matches("NVIDIA_DRIVER_CAPABILITIES").count(),
        1,
        "{env}"
    );
}

#[test]
fn a_function_without_a_gpu_gets_none() {
    let pods = template(&mut world(function("f", "m"), 10_000));
    assert!(!pods.to_string().contains("NVIDIA"), "{pods}");
    assert!(pods["spec"]["runtimeClassName"].is_null());
}

#[test]
fn pods_get_the_gpu_with_the_tensors_first_and_no_gpu_more_than_its_time() {
    // 20 requests/s each, half of a GPU's time: eight instances fill the four GPUs.
    let mut world = world(wants_gpu(), 70_000);
    world.settle(6);
    let mut on: BTreeMap<String, u32> = BTreeMap::new();
    for pod in world.now.pods.values() {
        let instance = pod.instance.as_ref().unwrap();
        let gpu = instance.gpu.clone().unwrap_or_default();
        let node = gpu.split('-').nth(1).unwrap_or_default();
        assert_eq!(pod.node, format!("node-{node}"), "{gpu}");
        *on.entry(gpu).or_default() += 1;
    }
    assert!(on.values().all(|count| *count <= 2), "{on:?}");
    assert_eq!(on.get("GPU-3-1"), Some(&2), "{on:?}");
    assert!(on.values().sum::<u32>() >= 4, "{on:?}");
}

#[test]
fn the_gate_is_opened_for_one_gpu() {
    let mut world = world(wants_gpu(), 10_000);
    let mut opened = Vec::new();
    for _ in 0..4 {
        world.time_ms += 1_000;
        world.see();
        world.pass();
        world.control();
        world.see();
        let steps = world.place();
        opened.extend(steps.into_iter().filter_map(|step| match step {
            Step::Open {
                gate, node, gpu, ..
            } => Some((gate, node, gpu)),
            _ => None,
        }));
    }
    let (gate, node, gpu) = opened.first().unwrap();
    assert_eq!(node.as_deref(), Some("node-3"));
    assert_eq!(gpu.as_deref(), Some("GPU-3-1"));
    let patch = gate.opening(node.as_deref(), gpu.as_deref());
    let annotations = json!({"tetris.dev/gpu": "GPU-3-1"});
    assert_eq!(patch["metadata"]["annotations"], annotations);
    assert!(gate.opening(None, None)["metadata"]["annotations"].is_null());
}

#[test]
fn nodes_for_gpus_get_no_instance_without_one() {
    let only_gpus = |mut world: World| {
        for node in world.now.nodes.values_mut() {
            let node = Arc::make_mut(node);
            node.gpus_only = world.now.gpus.contains_key(&node.name);
        }
        world.see();
        world.settle(6);
        let pods = world.now.pods.values();
        let nodes = pods.map(|pod| pod.node.clone());
        nodes.collect::<std::collections::BTreeSet<_>>()
    };
    let with = only_gpus(world(wants_gpu(), 70_000));
    assert!(
        with.iter().all(|node| node == "node-2" || node == "node-3"),
        "{with:?}"
    );
    let without = only_gpus(world(function("f", "m"), 70_000));
    assert!(
        without
            .iter()
            .all(|node| node == "node-0" || node == "node-1"),
        "{without:?}"
    );
    assert!(!with.is_empty() && !without.is_empty());
}

#[test]
fn tensors_that_others_hold_take_room() {
    let mut world = world(wants_gpu(), 10_000);
    for gpus in world.now.gpus.values_mut() {
        let mut all = gpus.to_vec();
        for gpu in &mut all {
            // 400 MiB of tensors do not fit beside these.
            gpu.held_bytes = 700 << 20;
        }
        *gpus = all.into();
    }
    world.see();
    let plan = world.plan();
    let state = plan.functions[0].state.as_ref().unwrap();
    let outcome = state.decision.outcome.to_string();
    assert!(outcome.contains("bytes of GPU memory"), "{outcome}");
}

#[test]
fn a_function_that_no_gpu_fits_says_so() {
    let mut world = world(wants_gpu(), 10_000);
    world.now.gpus.clear();
    world.see();
    let plan = world.plan();
    let state = plan.functions[0].state.as_ref().unwrap();
    let outcome = state.decision.outcome.to_string();
    assert!(
        outcome.contains("lacks 1 GPU of the configuration's type"),
        "{outcome}"
    );
}
