//! Dispatches of small cases, by hand.

use tetris_scaler_dispatch::{InstanceId, Outcome, Rejection, RequestId};

use crate::world::{MS, World, capacity, rules};

/// Number of requests on each instance, by its number.
fn given(world: &World, count: u64) -> Vec<usize> {
    let of = |id| world.in_flight.values().filter(|(at, _)| *at == id).count();
    (1..=count).map(of).collect()
}

fn offer(world: &mut World, count: usize) {
    for _ in 0..count {
        world.offer(None).unwrap();
        world.dispatch();
    }
}

#[test]
fn requests_go_by_capacity_and_not_by_turns() {
    let mut world = World::new(rules(1_000));
    world.add(1, capacity(1, 2, 100));
    world.add(2, capacity(1, 8, 100));
    offer(&mut world, 5);
    assert_eq!(given(&world, 2), [1, 4]);
    offer(&mut world, 5);
    assert_eq!(given(&world, 2), [2, 8]);
}

#[test]
fn equal_instances_take_turns() {
    let mut world = World::new(rules(1_000));
    for id in 1..=3 {
        world.add(id, capacity(1, 1, 100));
    }
    let mut order = Vec::new();
    for _ in 0..6 {
        let id = world.offer(None).unwrap();
        order.push(world.dispatch()[0].instance.0);
        world.complete(id, Outcome::Served);
    }
    assert_eq!(order, [1, 2, 3, 1, 2, 3]);
}

#[test]
fn a_batch_is_filled_before_another_one_starts() {
    let mut world = World::new(rules(1_000));
    world.add(1, capacity(4, 1, 100));
    world.add(2, capacity(4, 1, 100));
    offer(&mut world, 3);
    assert_eq!(given(&world, 2), [3, 0]);
    offer(&mut world, 3);
    assert_eq!(given(&world, 2), [4, 2]);
}

#[test]
fn requests_are_held_back_for_a_full_batch_where_enough_of_them_wait() {
    let mut world = World::new(rules(1_000));
    world.add(1, capacity(4, 1, 100));
    offer(&mut world, 2);
    // The batch starts with two requests. Those that come then wait on the instance, where the time
    // for which a batch waits begins at once.
    world.now_us += 100 * MS;
    offer(&mut world, 2);
    assert_eq!((given(&world, 1), world.waiting.len()), (vec![4], 0));
    offer(&mut world, 8);
    world.now_us += 100 * MS;
    for id in 0..2 {
        world.complete(id, Outcome::Served);
    }
    // The thread executes the other two. Two more would be the next batch of two.
    assert!(world.dispatch().is_empty());
    world.check();
    world.now_us += 100 * MS;
    for id in 2..4 {
        world.complete(id, Outcome::Served);
    }
    assert_eq!(world.dispatch().len(), 4, "a full batch");
    world.check();
}

#[test]
fn a_batch_is_not_filled_where_its_result_would_come_too_late() {
    let mut world = World::new(rules(150));
    world.add(1, capacity(4, 1, 100));
    world.add(2, capacity(1, 1, 100));
    // A batch that waits for 100 ms and takes as long misses 150 ms.
    offer(&mut world, 1);
    assert_eq!(given(&world, 2), [0, 1]);
    // The only free instance takes it all the same.
    offer(&mut world, 1);
    assert_eq!(given(&world, 2), [1, 1]);
    // 60 ms later the batch starts in 40 ms: now the result comes in time, and the single instance stays free.
    world.now_us += 60 * MS;
    world.complete(0, Outcome::Served);
    offer(&mut world, 1);
    assert_eq!(given(&world, 2), [2, 0]);
}

#[test]
fn a_request_waits_where_every_instance_can_still_take_it() {
    let mut world = World::new(rules(1_000));
    world.add(1, capacity(1, 1, 500));
    world.add(2, capacity(1, 1, 50));
    offer(&mut world, 3);
    assert_eq!((given(&world, 2), world.waiting.len()), (vec![1, 1], 1));
    world.now_us += 50 * MS;
    let fast = *world
        .in_flight
        .iter()
        .find(|(_, (at, _))| *at == 2)
        .unwrap()
        .0;
    world.complete(fast, Outcome::Served);
    let dispatches = world.dispatch();
    assert_eq!(
        (dispatches[0].instance.0, dispatches[0].waited_us),
        (2, 50 * MS)
    );
}

#[test]
fn a_draining_instance_keeps_its_requests_and_gets_no_more() {
    let mut world = World::new(rules(1_000));
    world.add(1, capacity(1, 4, 100));
    offer(&mut world, 2);
    world.drain(1);
    world.offer(None).unwrap();
    assert!(world.dispatch().is_empty());
    let load = world.dispatcher.instances().next().unwrap();
    assert_eq!((load.outstanding, load.draining), (2, true));
    world.complete(0, Outcome::Served);
    world.complete(1, Outcome::Served);
    assert_eq!(world.dispatcher.instances().next().unwrap().outstanding, 0);
    world.add(1, capacity(1, 4, 100));
    assert_eq!(world.dispatch().len(), 1, "ready again");
}

#[test]
fn requests_of_a_function_without_instances_wait_for_the_first() {
    let mut world = World::new(rules(200));
    offer(&mut world, 3);
    world.now_us += 20_000 * MS;
    assert!(
        world.expire().is_empty(),
        "the objective is no limit of the wait"
    );
    world.add(1, capacity(1, 4, 100));
    assert_eq!(world.dispatch().len(), 3);
}

#[test]
fn a_request_expires_after_its_longest_wait_or_the_shorter_one_of_its_client() {
    let mut world = World::new(rules(200));
    let limited = world.offer(Some(30 * MS)).unwrap();
    let usual = world.offer(None).unwrap();
    assert_eq!(world.dispatcher.next_us(), Some(world.now_us + 30 * MS));
    world.now_us += 30 * MS;
    assert_eq!(world.expire(), [limited]);
    world.now_us += world.dispatcher.rules().wait_us;
    assert_eq!(world.expire(), [usual]);
    assert_eq!(world.dispatcher.next_us(), None);
}

#[test]
fn a_new_instance_gets_little_at_first_and_is_used_where_nothing_else_is_free() {
    let mut slow = rules(1_000);
    slow.slow_start_us = 10_000 * MS;
    let mut world = World::new(slow);
    world.add(1, capacity(1, 8, 100));
    world.now_us += 20_000 * MS;
    world.add(2, capacity(1, 8, 100));
    offer(&mut world, 8);
    assert_eq!(given(&world, 2), [8, 0]);
    offer(&mut world, 3);
    assert_eq!((given(&world, 2), world.waiting.len()), (vec![8, 3], 0));
}

#[test]
fn a_slow_instance_gets_less() {
    let mut world = World::new(rules(10_000));
    world.add(1, capacity(1, 8, 100));
    world.add(2, capacity(1, 8, 100));
    for _ in 0..20 {
        offer(&mut world, 10);
        // The first takes ten times as long as profiled.
        for (instance, took_ms) in [(2, 100), (1, 900)] {
            world.now_us += took_ms * MS;
            let its = world
                .in_flight
                .iter()
                .filter(|(_, (at, _))| *at == instance);
            for id in its.map(|(&id, _)| id).collect::<Vec<_>>() {
                world.complete(id, Outcome::Served);
            }
        }
    }
    offer(&mut world, 8);
    let counts = given(&world, 2);
    assert!(counts[0] <= 1, "{counts:?}");
}

#[test]
fn a_number_is_given_to_one_request_at_a_time() {
    let mut world = World::new(rules(1_000));
    let id = world.offer(None).unwrap();
    let again = world.dispatcher.offer(world.now_us, RequestId(id), None);
    assert_eq!(again, Err(Rejection::Known));
}

#[test]
fn a_later_instance_of_the_same_number_has_none_of_the_requests_of_the_earlier_one() {
    let mut world = World::new(rules(1_000));
    world.add(1, capacity(1, 1, 100));
    offer(&mut world, 1);
    world.remove(1);
    world.add(1, capacity(1, 1, 100));
    offer(&mut world, 1);
    world.complete(0, Outcome::Failed);
    offer(&mut world, 1);
    assert_eq!(
        world.waiting.len(),
        1,
        "its only slot is taken by the second request"
    );
}

#[test]
fn a_request_goes_to_its_instances_alone_and_does_not_hold_up_the_others() {
    let mut world = World::new(rules(1_000));
    world.add(1, capacity(1, 1, 100));
    world.add(2, capacity(1, 1, 100));
    let first = world.offer_among(None, &[1]).unwrap();
    world.dispatch();
    let waiting = world.offer_among(None, &[1]).unwrap();
    assert!(
        world.dispatch().is_empty(),
        "the other has room, but not for it"
    );
    world.offer(None).unwrap();
    world.dispatch();
    assert_eq!(given(&world, 2), [1, 1]);
    assert_eq!(world.waiting.keys().collect::<Vec<_>>(), [&waiting]);
    world.complete(first, Outcome::Served);
    let next = world.dispatch();
    assert_eq!((next[0].request.0, next[0].instance.0), (waiting, 1));
}

#[test]
fn a_full_queue_refuses_a_request_whose_instances_have_no_room() {
    let mut tight = rules(1_000);
    tight.queue = 1;
    let mut world = World::new(tight);
    world.add(1, capacity(1, 1, 100));
    world.add(2, capacity(1, 1, 100));
    for _ in 0..2 {
        world.offer_among(None, &[1]).unwrap();
        world.dispatch();
    }
    let ids = |id| [InstanceId(id)].into();
    let refused = world
        .dispatcher
        .offer_among(world.now_us, RequestId(99), None, ids(1));
    assert!(
        matches!(refused, Err(Rejection::Full { waiting: 1, .. })),
        "{refused:?}"
    );
    assert!(world.offer_among(None, &[2]).is_some(), "it need not wait");
    assert_eq!(world.dispatch().len(), 1);
}

#[test]
fn a_request_that_would_be_late_gives_way_while_a_faster_instance_has_time_for_it() {
    let mut world = World::new(rules(200));
    world.add(1, capacity(1, 1, 50));
    world.add(2, capacity(1, 1, 170));
    offer(&mut world, 3);
    world.now_us += 40 * MS;
    offer(&mut world, 1);
    // The slow instance is free: the third request has 160 ms left, the fourth 200.
    let slow = world.in_flight.iter().find(|(_, (at, _))| *at == 2);
    let slow = *slow.unwrap().0;
    world.complete(slow, Outcome::Served);
    let dispatches = world.dispatch();
    assert_eq!(dispatches.len(), 1);
    assert_eq!((dispatches[0].request.0, dispatches[0].instance.0), (3, 2));
    // The fast one is free in time.
    world.now_us += 10 * MS;
    let fast = *world
        .in_flight
        .iter()
        .find(|(_, (at, _))| *at == 1)
        .unwrap()
        .0;
    world.complete(fast, Outcome::Served);
    assert_eq!(world.dispatch()[0].request.0, 2);
}

#[test]
fn a_request_that_is_late_everywhere_does_not_give_way() {
    let mut world = World::new(rules(200));
    world.add(1, capacity(1, 1, 50));
    world.add(2, capacity(1, 1, 170));
    offer(&mut world, 3);
    world.now_us += 160 * MS;
    offer(&mut world, 1);
    let slow = *world
        .in_flight
        .iter()
        .find(|(_, (at, _))| *at == 2)
        .unwrap()
        .0;
    world.complete(slow, Outcome::Served);
    assert_eq!(world.dispatch()[0].request.0, 2, "40 ms are left");
}
