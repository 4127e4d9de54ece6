//! Tests that waiting pods get to the nodes of the plan, whatever happens.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};
use tetris_scaler::operator::placing::Step;
use tetris_scaler::operator::records::{FunctionRecord, PodRecord, Refusal};
use tetris_scaler::state::Key;

use crate::operator::world::{NAMESPACE, World, function, object, profile};

/// Pods by Deployment and node.
type Spots = BTreeMap<(String, String), u32>;

fn world(nodes: usize, milli_rps: u64) -> World {
    let mut world = World::new(&[function("f", "m")], &[profile("m")], nodes);
    load(&mut world, milli_rps);
    world
}

fn load(world: &mut World, milli_rps: u64) {
    world.loads.insert(Key::new(NAMESPACE, "f"), milli_rps);
}

/// Returns the nodes that Deployments have pods planned on.
fn planned(world: &World) -> Spots {
    let deployments = world.now.deployments.values().flat_map(|deployment| {
        let spots = deployment.planned.iter();
        spots.map(|(node, count)| ((deployment.key.name.clone(), node.clone()), *count))
    });
    deployments.collect()
}

/// Returns the nodes that pods are on, or narrowed to.
fn found(world: &World) -> Spots {
    let mut spots = Spots::new();
    for pod in world.now.pods.values() {
        let instance = pod.instance.as_ref().unwrap();
        let deployment = format!("{}-{}", instance.function, instance.configuration);
        let spot = (deployment, pod.place().to_owned());
        *spots.entry(spot).or_default() += 1;
    }
    spots
}

/// Lets Deployments have all their pods, and the operator see them.
fn make_pods(world: &mut World) {
    for _ in 0..40 {
        world.control();
    }
    world.see();
}

fn reasons(steps: &[Step]) -> Vec<(&'static str, Option<&str>)> {
    let opened = steps.iter().filter_map(|step| match step {
        Step::Open { reason, node, .. } => Some((*reason, node.as_deref())),
        _ => None,
    });
    opened.collect()
}

/// Answers for every pod that is narrowed and not scheduled.
fn refuse(world: &mut World, refusal: Refusal) {
    for pod in world.now.pods.values_mut() {
        let pod = Arc::make_mut(pod);
        let instance = pod.instance.as_mut().unwrap();
        if pod.node.is_empty() && instance.gate.is_none() {
            instance.refusal = refusal;
        }
    }
    world.see();
}

#[test]
fn pods_are_narrowed_to_the_plan_at_once_whenever_it_grows() {
    let mut world = world(6, 60_000);
    let mut before = 0;
    for milli_rps in [60_000, 300_000, 900_000] {
        load(&mut world, milli_rps);
        world.time_ms += 5_000;
        world.see();
        world.pass();
        make_pods(&mut world);
        let steps = world.place();
        assert!(!steps.is_empty());
        assert!(
            reasons(&steps)
                .iter()
                .all(|(reason, _)| *reason == "planned"),
            "{steps:?}"
        );
        assert_eq!(found(&world), planned(&world));
        let pods = world.now.pods.len();
        assert!(pods > before);
        before = pods;
        world.schedule(0);
        world.kubelets();
    }
    assert_eq!(world.place(), []);
}

#[test]
fn a_new_leader_carries_the_same_plan_out() {
    let mut world = world(6, 900_000);
    world.see();
    world.pass();
    let plan = planned(&world);
    world.control();
    world.see();
    world.place();
    // It dies, with some pods narrowed and others not made yet.
    world.restart();
    make_pods(&mut world);
    world.place();
    assert_eq!(found(&world), plan);
}

#[test]
fn a_write_that_the_watch_does_not_show_yet_counts() {
    let mut world = world(6, 900_000);
    world.see();
    world.pass();
    make_pods(&mut world);
    let old = world.seen.clone();
    assert!(!world.place().is_empty());
    world.seen = old;
    assert_eq!(world.place(), [], "it knows what it wrote");
    assert_eq!(found(&world), planned(&world));
}

#[test]
fn a_node_that_takes_no_pod_is_left_out() {
    let mut world = world(3, 30_000);
    world.see();
    world.pass();
    make_pods(&mut world);
    world.place();
    let first = found(&world);
    refuse(&mut world, Refusal::Unschedulable);
    assert_eq!(world.place(), []);
    world.time_ms += 9_999;
    assert_eq!(world.place(), [], "it may only be busy");
    world.time_ms += 1;
    let steps = world.place();
    assert!(!steps.is_empty());
    assert!(
        steps
            .iter()
            .all(|step| matches!(step, Step::Replace { .. })),
        "{steps:?}"
    );
    make_pods(&mut world);
    world.place();
    world.time_ms += 500;
    let steps = world.place();
    assert!(
        reasons(&steps)
            .iter()
            .all(|(reason, _)| *reason == "chosen"),
        "{steps:?}"
    );
    let second = found(&world);
    assert!(
        second.keys().all(|spot| !first.contains_key(spot)),
        "{first:?} {second:?}"
    );
    // After a minute it may be tried again, and after three nodes the scheduler decides.
    for _ in 0..2 {
        refuse(&mut world, Refusal::Unschedulable);
        world.place();
        world.time_ms += 10_000;
        world.place();
        make_pods(&mut world);
        world.place();
        world.time_ms += 500;
        world.place();
    }
    make_pods(&mut world);
    assert!(
        found(&world).keys().all(|(_, node)| node.is_empty()),
        "{:?}",
        found(&world)
    );
    assert!(
        world
            .now
            .pods
            .values()
            .all(|pod| pod.instance.as_ref().unwrap().gate.is_none())
    );
}

#[test]
fn a_pod_whose_node_is_gone_is_replaced_soon_and_one_that_preempts_has_time() {
    let mut world = world(3, 30_000);
    world.see();
    world.pass();
    make_pods(&mut world);
    world.place();
    refuse(&mut world, Refusal::Preempting);
    world.place();
    world.time_ms += 60_000;
    assert_eq!(world.place(), []);
    let node = found(&world).keys().next().unwrap().1.clone();
    world.now.nodes.remove(&Key::new("", node.clone()));
    world.see();
    let steps = world.place();
    assert!(
        matches!(&steps[..], [Step::Replace { .. }, ..]),
        "{steps:?}"
    );
    make_pods(&mut world);
    world.place();
    world.time_ms += 500;
    world.place();
    let spots = found(&world);
    assert!(!spots.is_empty());
    assert!(
        spots
            .keys()
            .all(|(_, spots)| !spots.is_empty() && *spots != node),
        "{spots:?}"
    );
}

/// Lets each node have just the CPUs that its pods take.
fn fill_nodes(world: &mut World) {
    let cpus = |pod: &PodRecord| {
        let configuration = &pod.instance.as_ref().unwrap().configuration;
        let millis = configuration[1..].split('-').next().unwrap();
        millis.parse::<u64>().unwrap()
    };
    for node in world.now.nodes.values_mut() {
        let on_it = world.now.pods.values().filter(|pod| pod.node == node.name);
        let taken = on_it.map(|pod| cpus(pod)).sum();
        Arc::make_mut(node).allocatable.cpu_millis = taken;
    }
}

/// Gives all pods of `from` the template `to`.
fn set_template(world: &mut World, from: &str, to: &str) {
    for pod in world.now.pods.values_mut() {
        let instance = Arc::make_mut(pod).instance.as_mut().unwrap();
        if instance.template == from {
            to.clone_into(&mut instance.template);
        }
    }
}

#[test]
fn in_an_update_without_surge_each_pod_gets_the_node_that_an_old_one_leaves() {
    let mut world = world(6, 900_000);
    world.see();
    world.pass();
    make_pods(&mut world);
    world.place();
    world.schedule(0);
    world.kubelets();
    set_template(&mut world, "", "old");
    fill_nodes(&mut world);
    let plan = planned(&world);
    assert!(plan.values().sum::<u32>() >= 3, "{plan:?}");
    for number in 0..plan.values().sum() {
        let mut old = world.now.pods.values_mut();
        let old = old.find(|pod| pod.instance.as_ref().unwrap().template == "old");
        let old = old.unwrap();
        let key = old.key.clone();
        Arc::make_mut(old).instance.as_mut().unwrap().is_leaving = true;
        make_pods(&mut world);
        set_template(&mut world, "", "new");
        world.see();
        let steps = world.place();
        assert_eq!(reasons(&steps).len(), 1, "{number}: {steps:?}");
        assert_eq!(reasons(&steps)[0].0, "planned");
        // The scheduler refuses it until the old one is gone, and looks again a little later.
        for _ in 0..11 {
            world.time_ms += 9_000;
            refuse(&mut world, Refusal::Unschedulable);
            assert_eq!(world.place(), []);
        }
        world.now.pods.remove(&key);
        world.time_ms += 9_000;
        refuse(&mut world, Refusal::Unschedulable);
        assert_eq!(world.place(), []);
        world.schedule(0);
        world.kubelets();
    }
    assert_eq!(found(&world), plan);
}

#[test]
fn a_pod_that_leaves_for_ever_keeps_no_other_waiting() {
    let mut world = world(3, 30_000);
    world.see();
    world.pass();
    make_pods(&mut world);
    world.place();
    world.schedule(0);
    world.kubelets();
    fill_nodes(&mut world);
    let node = found(&world).keys().next().unwrap().1.clone();
    for node in world
        .now
        .nodes
        .values_mut()
        .filter(|entry| entry.name != node)
    {
        Arc::make_mut(node).allocatable.cpu_millis = 16_000;
    }
    for pod in world.now.pods.values_mut() {
        Arc::make_mut(pod).instance.as_mut().unwrap().is_leaving = true;
    }
    make_pods(&mut world);
    assert_eq!(reasons(&world.place())[0], ("planned", Some(node.as_str())));
    let mut seconds = 0;
    let step = loop {
        refuse(&mut world, Refusal::Unschedulable);
        if let Some(step) = world.place().pop() {
            break step;
        }
        world.time_ms += 1_000;
        seconds += 1;
        assert!(seconds < 200);
    };
    assert!(matches!(step, Step::Replace { .. }), "{step:?}");
    assert_eq!(
        seconds, 129,
        "two minutes for others to leave, and ten seconds"
    );
}

#[test]
fn pods_that_nobody_plans_for_are_opened_without_a_node() {
    let mut world = world(3, 30_000);
    world.see();
    world.pass();
    make_pods(&mut world);
    // The profile is gone: the function is not decided on.
    world.now.profiles.clear();
    world.see();
    world.place();
    world.time_ms += 500;
    let steps = world.place();
    let opened = reasons(&steps);
    assert!(!opened.is_empty());
    assert!(
        opened.iter().all(|reason| *reason == ("unplanned", None)),
        "{opened:?}"
    );
}

#[test]
fn without_room_pods_are_opened_for_the_scheduler() {
    let mut world = world(1, 30_000);
    world.see();
    world.pass();
    make_pods(&mut world);
    let node = world.now.nodes.get_mut(&Key::new("", "node-0")).unwrap();
    Arc::make_mut(node).allocatable.cpu_millis = 100;
    world.see();
    world.place();
    world.time_ms += 500;
    let steps = world.place();
    assert!(
        reasons(&steps)
            .iter()
            .all(|reason| *reason == ("unplanned", None)),
        "{steps:?}"
    );
    assert!(!steps.is_empty());
}

fn with_template(spec: &Value) -> World {
    let mut function = function("f", "m");
    for (field, value) in spec.as_object().unwrap() {
        function["spec"]["template"]["spec"][field] = value.clone();
    }
    let mut world = World::new(&[], &[profile("m")], 4);
    let record = FunctionRecord::read(object(&function));
    world
        .now
        .functions
        .insert(record.key.clone(), Arc::new(record));
    for (number, node) in world.now.nodes.values_mut().enumerate() {
        let labels = &mut Arc::make_mut(node).labels;
        labels.insert("number".to_owned(), number.to_string());
        labels.insert("kubernetes.io/os".to_owned(), "linux".to_owned());
    }
    load(&mut world, 30_000);
    world.see();
    world
}

#[test]
fn nodes_that_the_template_does_not_allow_are_not_chosen() {
    let term = |key: &str, operator: &str, values: Value| {
        let expression = json!({"key": key, "operator": operator, "values": values});
        json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [expression]}],
        }}}})
    };
    let templates = [
        json!({"nodeSelector": {"number": "3"}}),
        term("number", "In", json!(["3", "9"])),
        term("number", "NotIn", json!(["0", "1", "2"])),
        term("number", "Gt", json!(["2"])),
    ];
    for spec in templates {
        let mut world = with_template(&spec);
        world.pass();
        make_pods(&mut world);
        world.place();
        world.time_ms += 500;
        world.place();
        let spots = found(&world);
        let nodes: Vec<&str> = spots.keys().map(|(_, node)| node.as_str()).collect();
        assert_eq!(nodes, ["node-3"], "{spec}");
    }
}

#[test]
fn a_template_that_names_its_node_has_no_gate() {
    let named = json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-2"]}]}],
    }}}});
    let mut world = with_template(&named);
    let plan = world.pass();
    let actions = plan.functions[0].actions.iter();
    let mut applied = 0;
    for action in actions {
        if let tetris_scaler::operator::plan::Action::Apply { object, .. } = action {
            assert_eq!(
                object["spec"]["template"]["spec"]["schedulingGates"],
                Value::Null
            );
            applied += 1;
        }
    }
    assert!(applied > 0);
}

#[derive(Debug, Clone)]
enum Event {
    Load(u64),
    Pass,
    Place,
    Control,
    See,
    Schedule,
    Kubelets,
    Refuse,
    Restart,
    NodeLost(usize),
    Time(u64),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        2 => prop_oneof![Just(0), 0..1_500_000_u64].prop_map(Event::Load),
        5 => Just(Event::Pass),
        5 => Just(Event::Place),
        6 => Just(Event::Control),
        5 => Just(Event::See),
        3 => Just(Event::Schedule),
        3 => Just(Event::Kubelets),
        1 => Just(Event::Refuse),
        1 => Just(Event::Restart),
        1 => (0..8_usize).prop_map(Event::NodeLost),
        3 => (0..12_u64).prop_map(|s| Event::Time(s * 1_000)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_pod_waits_for_ever_and_no_node_gets_too_much(events in prop::collection::vec(event(), 0..80)) {
        let mut world = world(8, 200_000);
        for event in &events {
            match event {
                Event::Load(milli_rps) => load(&mut world, *milli_rps),
                Event::Pass => drop(world.pass()),
                Event::Place => drop(world.place()),
                Event::Control => world.control(),
                Event::See => world.see(),
                Event::Schedule => world.schedule(0),
                Event::Kubelets => world.kubelets(),
                Event::Refuse => refuse(&mut world, Refusal::Unschedulable),
                Event::Restart => world.restart(),
                Event::NodeLost(number) => {
                    // Node 0 stays, so that there is one.
                    let key = Key::new("", format!("node-{}", number.max(&1)));
                    world.now.nodes.remove(&key);
                    world.now.pods.retain(|_, pod| pod.node != key.name);
                }
                Event::Time(ms) => world.time_ms += ms,
            }
        }
        load(&mut world, 100_000);
        world.settle(120);
        for (key, pod) in &world.now.pods {
            let instance = pod.instance.as_ref().unwrap();
            prop_assert!(instance.gate.is_none() && !pod.node.is_empty(), "{key} waits: {pod:?}");
        }
        prop_assert!(!world.now.pods.is_empty());
        // The simulated scheduler ignores resources: what was narrowed fits all the same.
        let mut cpu: BTreeMap<String, u64> = BTreeMap::new();
        for pod in world.now.pods.values() {
            let configuration = &pod.instance.as_ref().unwrap().configuration;
            let millis = configuration[1..].split('-').next().unwrap();
            *cpu.entry(pod.node.clone()).or_default() += millis.parse::<u64>().unwrap();
        }
        prop_assert!(cpu.values().all(|millis| *millis <= 16_000), "{cpu:?}");
    }
}
