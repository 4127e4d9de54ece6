//! Tests that instances that do not serve are found, replaced and reported.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use tetris_scaler::operator::plan::Action;
use tetris_scaler::operator::records::{NodeRecord, PodRecord};
use tetris_scaler::resources::Condition;
use tetris_scaler::state::Key;

use crate::operator::world::{NAMESPACE, World, function, profile};

fn pod(status: &Value) -> PodRecord {
    let pod = json!({
        "metadata": {
            "name": "p", "namespace": NAMESPACE, "uid": "u",
            "labels": {"tetris.dev/function": "f", "tetris.dev/configuration": "c1000-b1-p1"},
        },
        "spec": {"nodeName": "n", "containers": []},
        "status": status,
    });
    PodRecord::read(&serde_json::from_value(pod).unwrap()).unwrap()
}

fn condition(what: &str, status: &str, at: &str) -> Value {
    json!({"type": what, "status": status, "lastTransitionTime": at})
}

#[test]
fn times_and_reasons_of_pods_are_those_of_the_kubelet() {
    let scheduled = condition("PodScheduled", "True", "2026-11-01T10:00:00Z");
    let since = |conditions: Value| {
        let pod = pod(&json!({"conditions": conditions}));
        pod.instance.unwrap().unready_since_s
    };
    let ten = 1_793_527_200;
    assert_eq!(since(json!([])), None, "it has no node");
    assert_eq!(since(json!([scheduled])), Some(ten));
    let unready = condition("Ready", "False", "2026-11-01T10:05:00Z");
    assert_eq!(since(json!([scheduled, unready])), Some(ten + 300));
    let container = |reason: &str| {
        json!([{
            "name": "main", "image": "", "imageID": "", "ready": false, "restartCount": 3,
            "state": {"waiting": {"reason": reason}},
        }])
    };
    let waiting = |status: Value| pod(&status).instance.unwrap().waiting;
    for field in ["containerStatuses", "initContainerStatuses"] {
        assert_eq!(
            waiting(json!({field: container("CrashLoopBackOff")})),
            Some("CrashLoopBackOff")
        );
        assert_eq!(
            waiting(json!({field: container("ContainerCreating")})),
            None
        );
    }
}

#[test]
fn a_container_that_crashes_again_and_again_shows_it_while_it_runs() {
    let crashes = |restarts: u32, ended: (&str, &str), unready: &str| {
        let status = json!({
            "conditions": [condition("Ready", "False", unready)],
            "containerStatuses": [{
                "name": "main", "image": "", "imageID": "", "ready": false, "restartCount": restarts,
                "state": {"running": {"startedAt": "2026-11-01T10:00:00Z"}},
                "lastState": {"terminated": {"exitCode": 1, "startedAt": ended.0, "finishedAt": ended.1}},
            }],
        });
        pod(&status).instance.unwrap().waiting
    };
    let soon = ("2026-11-01T09:54:00Z", "2026-11-01T09:55:00Z");
    assert_eq!(
        crashes(3, soon, "2026-11-01T09:40:00Z"),
        Some("CrashLoopBackOff")
    );
    assert_eq!(crashes(1, soon, "2026-11-01T09:40:00Z"), None, "once");
    let was_ready = "2026-11-01T10:00:30Z";
    assert_eq!(crashes(3, soon, was_ready), None, "it served");
    let late = ("2026-10-31T09:55:00Z", "2026-11-01T09:55:00Z");
    assert_eq!(
        crashes(3, late, "2026-11-01T09:55:00Z"),
        None,
        "it served for a day"
    );
}

#[test]
fn a_node_is_lost_when_it_says_so_or_nothing() {
    let lost = |conditions: Value, unschedulable: bool| {
        let node = json!({
            "metadata": {"name": "n"}, "spec": {"unschedulable": unschedulable},
            "status": {"conditions": conditions},
        });
        let node = NodeRecord::read(&serde_json::from_value(node).unwrap());
        (node.is_lost, node.accepts_new)
    };
    let ready = |status: &str| json!([condition("Ready", status, "2026-11-01T10:00:00Z")]);
    assert_eq!(lost(ready("True"), false), (false, true));
    assert_eq!(lost(ready("True"), true), (false, false));
    assert_eq!(lost(ready("False"), false), (true, false));
    assert_eq!(lost(ready("Unknown"), false), (true, false));
    assert_eq!(lost(json!([]), false), (false, false), "it is new");
}

/// A function that serves with several instances.
fn serving() -> World {
    let mut world = World::new(&[function("f", "m")], &[profile("m")], 6);
    world.loads.insert(Key::new(NAMESPACE, "f"), 900_000);
    world.settle(8);
    assert!(world.now.pods.len() >= 3);
    assert!(is_ready(&world));
    world
}

fn is_ready(world: &World) -> bool {
    let mut pods = world.now.pods.values();
    pods.all(|pod| pod.instance.as_ref().unwrap().is_ready)
}

fn instances(world: &World) -> u32 {
    world.replicas().values().sum()
}

/// Lets the `count` first pods be unready, for a reason.
fn fail(world: &mut World, count: usize, reason: Option<&'static str>) {
    for pod in world.now.pods.values_mut().take(count) {
        let instance = Arc::make_mut(pod).instance.as_mut().unwrap();
        (instance.is_ready, instance.waiting) = (false, reason);
    }
    world.see();
}

fn pass(world: &mut World) -> (BTreeMap<String, Condition>, Vec<String>) {
    world.time_ms += 5_000;
    let plan = world.pass();
    let mut events = Vec::new();
    for action in &plan.functions[0].actions {
        if let Action::Event { reason, .. } = action {
            events.push(reason.clone());
        }
    }
    world.see();
    let status = &world.now.functions[&Key::new(NAMESPACE, "f")].status;
    let conditions = status.conditions.iter();
    let all = conditions.map(|condition| (condition.r#type.clone(), condition.clone()));
    (all.collect(), events)
}

#[test]
fn instances_that_crash_are_replaced_and_told_until_they_serve() {
    let mut world = serving();
    let before = instances(&world);
    fail(&mut world, 4, Some("CrashLoopBackOff"));
    let first = world.now.pods.keys().next().unwrap().name.clone();
    let (conditions, events) = pass(&mut world);
    let healthy = &conditions["Healthy"];
    assert_eq!(
        (&*healthy.status, &*healthy.reason),
        ("False", "CrashLoopBackOff")
    );
    let message = format!("4 instances do not serve: {first} (CrashLoopBackOff)");
    assert!(healthy.message.starts_with(&message), "{}", healthy.message);
    assert!(
        events.contains(&"CrashLoopBackOff".to_owned()),
        "{events:?}"
    );
    let after = instances(&world);
    assert!(after > before, "{after} {before}");
    let (_, events) = pass(&mut world);
    assert_eq!(events, [""; 0], "it is told once");
    assert_eq!(instances(&world), after, "it is replaced once");
    // Once it serves, there are more than enough: after a window, the surplus goes.
    fail(&mut world, 4, None);
    world.settle(40);
    let (conditions, _) = pass(&mut world);
    assert_eq!(conditions["Healthy"].status, "True");
    assert!(instances(&world) <= after);
}

#[test]
fn a_function_whose_instances_all_fail_starts_at_most_as_many_again() {
    let mut world = serving();
    let before = instances(&world);
    for _ in 0..60 {
        let pods = world.now.pods.len();
        fail(&mut world, pods, Some("ImagePullBackOff"));
        pass(&mut world);
        world.control();
        world.see();
        world.place();
        world.schedule(0);
        world.time_ms += 60_000;
    }
    let after = instances(&world);
    // A start leaves the headroom of scaling in, of 20 %, and a growth of 30 %.
    assert!(after > before && after <= before * 3, "{after} {before}");
    let settled = after;
    for _ in 0..20 {
        world.time_ms += 1_800_000;
        pass(&mut world);
    }
    assert_eq!(instances(&world), settled);
    let (conditions, _) = pass(&mut world);
    assert_eq!(conditions["Ready"].reason, "ImagePullBackOff");
}

#[test]
fn instances_of_a_lost_node_are_replaced_at_once_and_slow_ones_after_their_time() {
    let mut world = serving();
    let before = instances(&world);
    let node = world.now.pods.values().next().unwrap().node.clone();
    let record = world
        .now
        .nodes
        .get_mut(&Key::new("", node.clone()))
        .unwrap();
    let record = Arc::make_mut(record);
    (record.is_lost, record.accepts_new) = (true, false);
    world.see();
    pass(&mut world);
    assert_eq!(instances(&world), before, "its pods still serve");
    for pod in world.now.pods.values_mut().filter(|pod| pod.node == node) {
        Arc::make_mut(pod).instance.as_mut().unwrap().is_ready = false;
    }
    world.see();
    let (conditions, _) = pass(&mut world);
    assert_eq!(conditions["Healthy"].reason, "NodeLost");
    assert!(instances(&world) > before);

    let mut world = serving();
    let before = instances(&world);
    let since = i64::try_from(world.time_ms / 1_000).unwrap();
    for pod in world.now.pods.values_mut() {
        let instance = Arc::make_mut(pod).instance.as_mut().unwrap();
        (instance.is_ready, instance.unready_since_s) = (false, Some(since));
    }
    world.see();
    world.time_ms += 290_000;
    let (conditions, _) = pass(&mut world);
    assert_eq!(
        conditions["Healthy"].status, "True",
        "they have five minutes"
    );
    assert_eq!(instances(&world), before);
    world.time_ms += 10_000;
    let (conditions, _) = pass(&mut world);
    assert_eq!(conditions["Healthy"].reason, "NotReady");
    assert!(instances(&world) > before);
}
