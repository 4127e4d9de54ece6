//! Instances that fail, and requests that come back.

use tetris_scaler_dispatch::Outcome;

use crate::world::{EJECTS_ALL, SECOND, World, capacity, rules};

fn ejected(world: &World) -> Vec<u64> {
    let all = world
        .dispatcher
        .instances()
        .filter(|instance| instance.ejected);
    all.map(|dispatcher| dispatcher.instance.0).collect()
}

#[test]
fn an_unreachable_instance_is_ejected_and_its_request_goes_to_another() {
    let mut world = World::new(rules(1_000));
    world.add(1, capacity(1, 4, 100));
    world.add(2, capacity(1, 1, 100));
    let id = world.offer(None).unwrap();
    assert_eq!(world.dispatch()[0].instance.0, 1);
    world.give_back(id);
    assert_eq!(ejected(&world), [1]);
    assert_eq!(world.dispatch()[0].instance.0, 2);
    world.now_us += SECOND;
    for _ in 0..3 {
        world.offer(None).unwrap();
    }
    assert_eq!(
        world.dispatch().len(),
        1,
        "on probation, one request at a time"
    );
    world.check();
}

#[test]
fn a_request_comes_back_to_its_old_place() {
    let mut world = World::new(rules(1_000));
    world.dispatcher.set_rules({
        let mut rules = rules(1_000);
        rules.ejection = EJECTS_ALL;
        rules
    });
    world.add(1, capacity(1, 1, 100));
    let first = world.offer(None).unwrap();
    world.dispatch();
    world.now_us += 5_000;
    world.offer(None).unwrap();
    world.give_back(first);
    assert!(world.dispatch().is_empty(), "the only instance is ejected");
    assert_eq!(world.dispatcher.next_us(), Some(world.now_us + SECOND));
    world.now_us += SECOND;
    assert_eq!(world.dispatch()[0].request.0, first);
}

#[test]
fn failures_in_a_row_eject_until_half_of_the_instances_are() {
    let mut world = World::new(rules(1_000));
    for id in 1..=4 {
        world.add(id, capacity(1, 1, 100));
    }
    for _ in 0..40 {
        while world.offer(None).is_some() && world.waiting.len() < 8 {}
        world.dispatch();
        let all: Vec<u64> = world.in_flight.keys().copied().collect();
        for id in all {
            world.complete(id, Outcome::Failed);
        }
    }
    assert_eq!(ejected(&world).len(), 2);
}

#[test]
fn a_hung_instance_gets_no_more_than_its_room() {
    let mut world = World::new(rules(1_000));
    world.add(1, capacity(1, 2, 100));
    world.add(2, capacity(1, 2, 100));
    for _ in 0..100 {
        world.offer(None).unwrap();
        world.dispatch();
        // The first never answers.
        let answered: Vec<u64> = world
            .in_flight
            .iter()
            .filter(|(_, (at, _))| *at == 2)
            .map(|(&id, _)| id)
            .collect();
        for id in answered {
            world.complete(id, Outcome::Served);
        }
        world.now_us += 100_000;
    }
    assert!(world.in_flight.len() <= 2, "{:?}", world.in_flight);
    assert!(world.ended.len() >= 98);
}
