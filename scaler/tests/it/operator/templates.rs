//! Tests of applied Deployments.

use std::sync::Arc;

use serde_json::{Value, json};
use tetris_scaler::operator::plan::Action;
use tetris_scaler::operator::records::FunctionRecord;
use tetris_scaler::state::Key;

use crate::operator::world::{NAMESPACE, World, function, object, profile};

fn applied(world: &mut World) -> Vec<Value> {
    let plan = world.plan();
    let actions = plan.functions.iter().flat_map(|function| &function.actions);
    let objects = actions.filter_map(|action| match action {
        Action::Apply { object, .. } => Some(object.clone()),
        _ => None,
    });
    objects.collect()
}

fn loaded(function: &Value, milli_rps: u64) -> World {
    let mut world = World::new(std::slice::from_ref(function), &[profile("m")], 4);
    world.loads.insert(Key::new(NAMESPACE, "f"), milli_rps);
    world
}

fn edited(path: &str, value: Value) -> Value {
    let mut function = function("f", "m");
    let (parent, key) = path.rsplit_once('/').unwrap();
    function.pointer_mut(parent).unwrap()[key] = value;
    function
}

#[test]
fn a_deployment_has_all_that_an_instance_needs() {
    let mut world = loaded(&function("f", "m"), 15_000);
    let objects = applied(&mut world);
    assert_eq!(objects.len(), 1);
    let deployment = &objects[0];
    assert_eq!(deployment["metadata"]["name"], "f-c1000-b1-p1");
    assert_eq!(
        deployment["metadata"]["ownerReferences"][0]["uid"],
        "uid-of-f"
    );
    let labels = json!({"tetris.dev/function": "f", "tetris.dev/configuration": "c1000-b1-p1"});
    assert_eq!(deployment["metadata"]["labels"], labels);
    assert_eq!(deployment["spec"]["selector"]["matchLabels"], labels);
    let pods = &deployment["spec"]["template"];
    assert_eq!(pods["metadata"]["labels"], labels);
    let container = &pods["spec"]["containers"][0];
    assert_eq!(
        container["env"],
        json!([
            {"name": "TETRIS_BATCH", "value": "1"},
            {"name": "TETRIS_CONCURRENCY", "value": "1"},
            {"name": "TETRIS_CPU_MILLIS", "value": "1000"},
        ])
    );
    let memory = (100_u64 << 20).to_string();
    let resources = json!({
        "requests": {"cpu": "1000m", "memory": memory}, "limits": {"memory": memory},
    });
    assert_eq!(container["resources"], resources);
    let volume =
        json!({"name": "tetris-store", "csi": {"driver": "csi.tetris.dev", "readOnly": true}});
    assert_eq!(pods["spec"]["volumes"], json!([volume]));
    let mount = json!({"name": "tetris-store", "mountPath": "/run/tetris/store", "readOnly": true});
    assert_eq!(container["volumeMounts"], json!([mount]));
    // The API server refuses an object with unknown types.
    let typed: k8s_openapi::api::apps::v1::Deployment =
        serde_json::from_value(deployment.clone()).unwrap();
    let spec = typed.spec.unwrap().template.spec.unwrap();
    let affinity = spec.affinity.clone().unwrap();
    let nodes = affinity.node_affinity.unwrap();
    let terms = nodes
        .preferred_during_scheduling_ignored_during_execution
        .unwrap();
    assert!(!terms.is_empty() && terms.len() <= 20);
    assert!(terms.iter().all(|term| (1..=100).contains(&term.weight)));
    assert!(affinity.pod_anti_affinity.is_none());
    let gates = spec.scheduling_gates.unwrap();
    let names: Vec<&str> = gates.iter().map(|gate| gate.name.as_str()).collect();
    assert_eq!(names, ["tetris.dev/placement"]);
}

#[test]
fn a_model_of_the_function_and_models_of_the_template_lie_beside_the_store() {
    let named = |model: &str| json!({"driver": "csi.tetris.dev", "readOnly": true, "volumeAttributes": {"content": "model", "model": model}});
    let mut function = edited("/spec/model", "llama".into());
    let pods = &mut function["spec"]["template"]["spec"];
    pods["volumes"] = json!([{"name": "draft", "csi": named("draft")}]);
    let deployment = &applied(&mut loaded(&function, 15_000))[0];
    let pods = &deployment["spec"]["template"]["spec"];
    let volumes = json!([
        {"name": "draft", "csi": named("draft")},
        {"name": "tetris-store", "csi": {"driver": "csi.tetris.dev", "readOnly": true}},
        {"name": "tetris-model", "csi": named("llama")},
    ]);
    assert_eq!(pods["volumes"], volumes);
    let mounts = json!([
        {"name": "tetris-store", "mountPath": "/run/tetris/store", "readOnly": true},
        {"name": "tetris-model", "mountPath": "/models/llama", "readOnly": true},
    ]);
    assert_eq!(pods["containers"][0]["volumeMounts"], mounts);
}

#[test]
fn what_the_template_has_stays() {
    let template = json!({
        "metadata": {"labels": {"app": "x"}, "annotations": {"note": "y"}},
        "spec": {
            "laterField": {"kept": true},
            "volumes": [{"name": "weights", "csi": {"driver": "csi.tetris.dev", "readOnly": true}}],
            "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 7, "preference": {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}},
            ]}},
            "containers": [
                {"name": "proxy", "image": "p"},
                {"name": "main", "image": "server", "env": [{"name": "A", "value": "1"}],
                 "resources": {"limits": {"memory": "2Gi", "cpu": "8"}}},
            ],
        },
    });
    let mut function = edited("/spec/template", template);
    function["spec"]["container"] = json!("main");
    function["spec"]["store"] = json!("shared");
    let objects = applied(&mut loaded(&function, 15_000));
    let pods = &objects[0]["spec"]["template"];
    assert_eq!(pods["metadata"]["labels"]["app"], "x");
    assert_eq!(pods["metadata"]["annotations"]["note"], "y");
    assert_eq!(pods["spec"]["laterField"]["kept"], true);
    assert_eq!(pods["spec"]["volumes"].as_array().unwrap().len(), 1);
    let main = &pods["spec"]["containers"][1];
    assert_eq!(main["env"].as_array().unwrap().len(), 4);
    assert_eq!(
        main["resources"]["limits"],
        json!({"memory": "2Gi", "cpu": "8"})
    );
    assert_eq!(main["volumeMounts"][0]["name"], "weights");
    assert_eq!(
        pods["spec"]["containers"][0],
        json!({"name": "proxy", "image": "p"})
    );
    let terms = &pods["spec"]["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"];
    assert_eq!(terms[0]["weight"], 7);
    assert!(terms.as_array().unwrap().len() > 1);
}

#[test]
fn preferences_change_only_when_pods_are_replaced_anyway() {
    let mut world = loaded(&function("f", "m"), 15_000);
    world.settle(5);
    let key = Key::new(NAMESPACE, "f-c1000-b1-p1");
    let before = world.now.deployments[&key].clone();
    assert!(!before.preferred.is_empty());
    // Changes of nodes cause no write.
    world.now.nodes.remove(&Key::new("", "node-0"));
    world.see();
    assert_eq!(applied(&mut world), Vec::<Value>::new());
    // More instances of the same configuration: the template stays identical.
    world.loads.insert(Key::new(NAMESPACE, "f"), 30_000);
    world.settle(5);
    let grown = world.now.deployments[&key].clone();
    if grown.replicas > before.replicas {
        assert_eq!(grown.preferred, before.preferred);
        assert_eq!(grown.template_hash, before.template_hash);
    }
    // An edit replaces all pods, so the preferred nodes may change.
    let image = edited("/spec/template/spec/containers/0/image", json!("server:2"));
    let mut image = FunctionRecord::read(object(&image));
    image.generation = 2;
    world
        .now
        .functions
        .insert(image.key.clone(), Arc::new(image));
    world.see();
    let edits = applied(&mut world);
    assert!(!edits.is_empty());
    for edit in edits {
        assert_eq!(
            edit["spec"]["template"]["spec"]["containers"][0]["image"],
            "server:2"
        );
        assert!(edit["metadata"]["resourceVersion"].is_string());
    }
    world.settle(10);
    assert_eq!(applied(&mut world), Vec::<Value>::new());
}

#[test]
fn of_functions_that_others_scale_nothing_is_written_but_the_status() {
    let mut world = loaded(&edited("/spec/scaling", json!("External")), 90_000);
    let plan = world.plan();
    let actions = &plan.functions[0].actions;
    let is_report = |one: &Action| matches!(one, Action::Status(_) | Action::Event { .. });
    assert!(actions.iter().all(is_report), "{actions:?}");
    let state = &plan.snapshot.functions[&Key::new(NAMESPACE, "f")];
    assert!(state.decision.replicas.values().sum::<u32>() > 0);
}

#[test]
fn a_function_that_is_being_deleted_is_left_alone() {
    let mut deleted = function("f", "m");
    deleted["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let plan = loaded(&deleted, 90_000).plan();
    assert_eq!(plan.functions[0].actions, []);
    assert!(plan.snapshot.functions.is_empty());
}

#[test]
fn the_least_loaded_are_marked_before_their_deployment_shrinks() {
    let mut world = loaded(&function("f", "m"), 0);
    world.loads.insert(Key::new(NAMESPACE, "f"), 500_000);
    world.settle(40);
    world.loads.insert(Key::new(NAMESPACE, "f"), 150_000);
    let mut marked = 0;
    for _ in 0..40 {
        world.time_ms += 5_000;
        world.see();
        let plan = world.pass();
        let actions = &plan.functions[0].actions;
        let is_mark =
            |one: &Action| matches!(one, Action::Mark { cost: Some(cost), .. } if *cost < 0);
        let shrinks = |one: &Action| matches!(one, Action::Scale { .. } | Action::Apply { .. });
        if let Some(mark) = actions.iter().rposition(is_mark) {
            let shrink = actions.iter().position(shrinks);
            assert!(shrink.is_some_and(|shrink| mark < shrink), "{actions:?}");
            marked += 1;
        }
        world.control();
        world.kubelets();
    }
    assert!(marked > 0);
}
