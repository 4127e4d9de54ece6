//! Tests that a request that waits or is served has an instance, whatever the load is.

use tetris_scaler::state::Key;

use crate::operator::world::{NAMESPACE, World, function, profile};

fn world() -> (World, Key) {
    let mut function = function("f", "m");
    function["spec"]["load"] = serde_json::json!({"gateway": {}});
    let mut world = World::new(&[function], &[profile("m")], 6);
    world.latency = None;
    (world, Key::new(NAMESPACE, "f"))
}

fn instances(world: &World) -> u32 {
    world.replicas().values().sum()
}

#[test]
fn a_request_has_an_instance_even_if_the_load_is_zero_or_unknown() {
    for load_unknown in [false, true] {
        let (mut world, key) = world();
        world.load_unknown = load_unknown;
        world.settle(20);
        assert_eq!(instances(&world), 0);
        world.demanded.insert(key.clone());
        let plan = world.pass();
        assert_eq!(instances(&world), 1, "in one pass");
        let decision = &plan.functions[0].state.as_ref().unwrap().decision;
        assert_eq!(decision.replicas.values().sum::<u32>(), 1);
        world.settle(60);
        assert_eq!(instances(&world), 1, "it stays");
    }
}

#[test]
fn the_last_instance_goes_once_no_request_is_left_and_the_load_is_known_to_be_zero() {
    let (mut world, key) = world();
    world.loads.insert(key.clone(), 300_000);
    world.demanded.insert(key.clone());
    world.settle(20);
    assert!(instances(&world) > 1);
    world.loads.insert(key.clone(), 0);
    world.settle(60);
    assert_eq!(instances(&world), 1);
    world.demanded.remove(&key);
    world.load_unknown = true;
    world.settle(60);
    assert_eq!(instances(&world), 1, "unknown is not zero");
    world.load_unknown = false;
    world.settle(60);
    assert_eq!(instances(&world), 0);
}
