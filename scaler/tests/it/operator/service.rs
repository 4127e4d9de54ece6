//! Tests that instances that are slower than profiled count for less.

use tetris_scaler::load::LoadError;
use tetris_scaler::operator::plan::Action;
use tetris_scaler::resources::Condition;
use tetris_scaler::state::Key;

use crate::operator::world::{NAMESPACE, World, function, profile};

/// A function that serves 900 requests per second with a latency of 50 or 80 ms in the profile.
fn serving(asks: bool) -> World {
    let mut function = function("f", "m");
    if asks {
        function["spec"]["load"]["prometheus"]["latencyQuery"] = "max(latency)".into();
    }
    let mut world = World::new(&[function], &[profile("m")], 6);
    world.loads.insert(Key::new(NAMESPACE, "f"), 900_000);
    world.settle(30);
    world
}

fn instances(world: &World) -> u32 {
    world.replicas().values().sum()
}

fn as_profiled(world: &mut World) -> Option<Condition> {
    let plan = world.plan();
    let status = plan.functions[0]
        .actions
        .iter()
        .find_map(|action| match action {
            Action::Status(status) => Some((**status).clone()),
            _ => None,
        });
    let status = status.unwrap_or_else(|| {
        world.now.functions[&Key::new(NAMESPACE, "f")]
            .status
            .clone()
    });
    let mut all = status.conditions.into_iter();
    all.find(|condition| condition.r#type == "AsProfiled")
}

/// Largest latency of the configurations that serve, in microseconds.
fn expected(world: &World) -> u64 {
    let names: Vec<String> = world.replicas().into_keys().collect();
    if names.iter().any(|name| name.ends_with("c4000-b4-p2")) {
        80_000
    } else {
        50_000
    }
}

#[test]
fn a_slower_service_takes_more_instances_and_says_so() {
    let mut world = serving(true);
    let before = instances(&world);
    let expected = expected(&world);
    // Within a tenth, nothing changes.
    world.latency = Some(Ok(expected * 11 / 10));
    let as_measured = as_profiled(&mut world).unwrap();
    assert_eq!(
        (&*as_measured.status, &*as_measured.reason),
        ("True", "AsProfiled")
    );
    world.settle(10);
    assert_eq!(instances(&world), before);
    // A latency of 165 % is 50 % above what is tolerated.
    world.latency = Some(Ok(expected * 165 / 100));
    let slower = as_profiled(&mut world).unwrap();
    assert_eq!(
        (&*slower.status, &*slower.reason),
        ("False", "SlowerThanProfiled")
    );
    assert!(
        slower.message.contains("the load counts for 50 % more"),
        "{}",
        slower.message
    );
    world.settle(30);
    let slow = instances(&world);
    assert!(slow > before, "{slow} {before}");
    // However slow, a load counts at most twice.
    world.latency = Some(Ok(expected * 100));
    let condition = as_profiled(&mut world).unwrap();
    assert!(
        condition.message.contains("100 % more"),
        "{}",
        condition.message
    );
    // As fast as profiled again: after a window, the surplus goes.
    world.latency = Some(Ok(expected));
    world.settle(60);
    assert!(instances(&world) < slow);
}

#[test]
fn late_requests_of_too_few_instances_and_unknown_latencies_change_nothing() {
    assert_eq!(as_profiled(&mut serving(false)), None, "nobody asks");
    let mut world = serving(true);
    let as_measured = as_profiled(&mut world).unwrap();
    assert_eq!(
        (&*as_measured.status, &*as_measured.reason),
        ("Unknown", "NotAskedYet")
    );
    let before = instances(&world);
    world.latency = Some(Err(LoadError::Empty));
    let late = as_profiled(&mut world).unwrap();
    assert_eq!((&*late.status, &*late.reason), ("Unknown", "NoResult"));
    world.settle(2);
    assert_eq!(instances(&world), before);
    world.latency = Some(Ok(10_000_000));
    world.loads.insert(Key::new(NAMESPACE, "f"), 9_000_000);
    let unknown = as_profiled(&mut world).unwrap();
    assert_eq!(
        (&*unknown.status, &*unknown.reason),
        ("Unknown", "Overloaded")
    );
    world.load_unknown = true;
    let condition = as_profiled(&mut world).unwrap();
    assert_eq!(
        (&*condition.status, &*condition.reason),
        ("Unknown", "LoadUnknown")
    );
}
