//! Tests that the operator settles after events in any order, and stays so.

use std::sync::Arc;

use proptest::prelude::*;
use tetris_scaler::operator::plan::Action;
use tetris_scaler::state::Key;
use tetris_scaler_core::Rate;

use crate::operator::world::{NAMESPACE, World, function, profile};

#[derive(Debug, Clone)]
enum Event {
    /// The load of the function changes, in thousandths of a request per second.
    Load(usize, u64),
    /// The operator makes a pass with its current caches.
    Pass,
    See,
    SeePods,
    SeeDeployments,
    Control,
    Schedule(usize),
    Kubelets,
    Place,
    Restart,
    LoadUnknown(bool),
    Time(u64),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => (0..2_usize, prop_oneof![Just(0), 0..2_000_000_u64]).prop_map(|(f, load)| Event::Load(f, load)),
        6 => Just(Event::Pass),
        3 => Just(Event::See),
        2 => Just(Event::SeePods),
        2 => Just(Event::SeeDeployments),
        5 => Just(Event::Control),
        3 => (0..7_usize).prop_map(Event::Schedule),
        3 => Just(Event::Kubelets),
        4 => Just(Event::Place),
        1 => Just(Event::Restart),
        1 => any::<bool>().prop_map(Event::LoadUnknown),
        3 => (1..40_u64).prop_map(|s| Event::Time(s * 1_000)),
    ]
}

fn world() -> World {
    let functions = [function("f", "m"), function("g", "m")];
    World::new(&functions, &[profile("m")], 12)
}

fn keys() -> [Key; 2] {
    ["f", "g"].map(|name| Key::new(NAMESPACE, name))
}

fn happen(world: &mut World, event: &Event) {
    match event {
        Event::Load(function, load) => {
            world.loads.insert(keys()[*function].clone(), *load);
        }
        Event::Pass => drop(world.pass()),
        Event::See => world.see(),
        Event::SeePods => world.seen.pods = world.now.pods.clone(),
        Event::SeeDeployments => world.seen.deployments = world.now.deployments.clone(),
        Event::Control => world.control(),
        Event::Schedule(choice) => world.schedule(*choice),
        Event::Kubelets => world.kubelets(),
        Event::Place => drop(world.place()),
        Event::Restart => world.restart(),
        Event::LoadUnknown(unknown) => world.load_unknown = *unknown,
        Event::Time(ms) => world.time_ms += ms,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn it_comes_to_rest_and_never_flaps(events in prop::collection::vec(event(), 0..80), consolidate: bool) {
        let mut world = world();
        if consolidate {
            world.consolidate_after(30_000);
        }
        for event in &events {
            happen(&mut world, event);
        }
        world.load_unknown = false;
        world.settle(200);
        let (started, rest) = (world.started, world.replicas());
        for _ in 0..60 {
            let plan = world.pass();
            for function in &plan.functions {
                prop_assert_eq!(&function.actions, &Vec::<Action>::new());
                let decision = &function.state.as_ref().unwrap().decision;
                prop_assert!(decision.ready >= decision.needed, "{:?}", decision);
            }
            world.settle(1);
        }
        prop_assert_eq!(world.started, started);
        prop_assert_eq!(world.replicas(), rest);
    }

    #[test]
    fn a_plan_is_the_same_for_the_same_view(events in prop::collection::vec(event(), 0..60)) {
        let mut world = world();
        for event in &events {
            happen(&mut world, event);
        }
        let (first, second) = (world.plan(), world.plan());
        for (first, second) in first.functions.iter().zip(&second.functions) {
            prop_assert_eq!(&first.actions, &second.actions);
        }
    }
}

#[test]
fn to_zero_and_back() {
    let mut world = world();
    let [f, _] = keys();
    world.loads.insert(f.clone(), 90_000);
    world.settle(40);
    assert!(world.replicas().values().sum::<u32>() > 0);
    world.loads.insert(f.clone(), 0);
    world.settle(5);
    assert!(
        world.replicas().values().sum::<u32>() > 0,
        "the window is not over"
    );
    world.settle(60);
    assert_eq!(
        world.replicas().len(),
        0,
        "Deployments without instances are deleted"
    );
    let status = &world.now.functions[&f].status;
    assert_eq!(status.instances, Some(0));
    assert_eq!(status.conditions[0].reason, "Idle");
    world.loads.insert(f.clone(), 1_000);
    world.settle(10);
    assert!(world.replicas().values().sum::<u32>() > 0);
    assert_eq!(
        world.now.functions[&f].status.conditions[0].reason,
        "Serving"
    );
}

/// A user's may have the name and the labels of a function's, as for KEDA; or a function before this one had its name.
#[test]
fn a_deployment_that_the_function_does_not_own_is_left_alone() {
    for owner in [None, Some("uid-before".to_owned())] {
        let mut world = world();
        let [f, _] = keys();
        world.loads.insert(f.clone(), 90_000);
        world.settle(20);
        assert!(!world.now.deployments.is_empty());
        for record in world.now.deployments.values_mut() {
            let record = Arc::make_mut(record);
            (record.owner, record.template_hash) = (owner.clone(), None);
        }
        for load in [90_000, 0] {
            world.loads.insert(f.clone(), load);
            world.see();
            let plan = world.plan();
            for action in plan.functions.iter().flat_map(|function| &function.actions) {
                let harmless = match action {
                    // Refused when it turns out that there is one.
                    Action::Apply { is_present, .. } => !is_present,
                    Action::Event { .. } | Action::Status(_) => true,
                    _ => false,
                };
                assert!(harmless, "{action:?}");
            }
        }
    }
}

#[test]
fn writes_from_an_old_view_are_refused_and_do_no_harm() {
    let mut world = world();
    let [f, _] = keys();
    world.loads.insert(f.clone(), 90_000);
    world.settle(20);
    let before = world.replicas();
    // The load rises, while another view predates the last write.
    let old = world.seen.clone();
    world.loads.insert(f.clone(), 400_000);
    world.pass();
    let grown = world.replicas();
    assert_ne!(grown, before);
    world.seen = old;
    world.loads.insert(f, 91_000);
    world.pass();
    assert_eq!(world.replicas(), grown);
}

#[test]
fn an_unknown_load_releases_nothing() {
    let mut world = world();
    let [f, g] = keys();
    world.loads.extend([(f, 300_000), (g, 50_000)]);
    world.settle(30);
    let before = world.replicas();
    world.load_unknown = true;
    world.settle(100);
    assert_eq!(world.replicas(), before);
    let plan = world.plan();
    assert_eq!(plan.snapshot.functions.len(), 2);
    assert!(
        plan.snapshot
            .functions
            .values()
            .all(|function| function.load.is_none())
    );
    assert!(
        plan.snapshot
            .functions
            .values()
            .all(|function| function.decision.capacity > Rate::ZERO)
    );
}
