//! Requests refused at once.

use tetris_scaler_dispatch::Rejection;

use crate::world::{MS, World, capacity, rules};

#[test]
fn a_full_queue_refuses_and_tells_when_half_of_it_is_served() {
    let mut short = rules(200);
    short.queue = 4;
    let mut world = World::new(short);
    for _ in 0..4 {
        world.offer(None).unwrap();
    }
    let refused = world
        .dispatcher
        .offer(world.now_us, tetris_scaler_dispatch::RequestId(99), None);
    assert_eq!(
        refused,
        Err(Rejection::Full {
            waiting: 4,
            retry_us: 1_000_000
        }),
        "nobody knows without an instance"
    );
    world.add(1, capacity(1, 1, 100));
    world.dispatch();
    world.offer(None).unwrap();
    let refused = world
        .dispatcher
        .offer(world.now_us, tetris_scaler_dispatch::RequestId(99), None);
    assert_eq!(
        refused,
        Err(Rejection::Full {
            waiting: 4,
            retry_us: 200 * MS
        }),
        "2 requests at 10 a second"
    );
}

#[test]
fn a_queue_of_none_lets_through_requests_that_start_at_once() {
    let mut none = rules(200);
    none.queue = 0;
    let mut world = World::new(none);
    world.add(1, capacity(1, 2, 100));
    for _ in 0..2 {
        assert!(world.offer(None).is_some());
        world.dispatch();
    }
    assert!(world.offer(None).is_none());
}

#[test]
fn a_request_is_refused_that_would_wait_for_longer_than_it_may() {
    let mut world = World::new(rules(200));
    world.add(1, capacity(1, 1, 100));
    for _ in 0..11 {
        world.offer(None).unwrap();
        world.dispatch();
    }
    // 10 wait: another one would for 1.1 s.
    assert!(world.offer(Some(1_000 * MS)).is_none());
    assert!(world.offer(Some(1_100 * MS)).is_some());
}

#[test]
fn a_request_that_would_miss_its_deadline_is_refused_where_the_rules_say_so() {
    let mut late = rules(350);
    let fill = |world: &mut World| {
        world.add(1, capacity(1, 1, 100));
        let accepted = (0..10).filter(|_| {
            let accepted = world.offer(None).is_some();
            world.dispatch();
            accepted
        });
        accepted.count()
    };
    assert_eq!(fill(&mut World::new(late)), 10);
    late.reject_late = true;
    let mut world = World::new(late);
    // One runs; the second waits for 0.1 s and takes as long, the third until 0.3 s.
    assert_eq!(fill(&mut world), 3);
    let refused = world
        .dispatcher
        .offer(world.now_us, tetris_scaler_dispatch::RequestId(99), None)
        .unwrap_err();
    let (estimate_us, allowed_us) = (400 * MS, 350 * MS);
    assert_eq!(
        refused,
        Rejection::TooLate {
            estimate_us,
            allowed_us,
            retry_us: 50 * MS
        }
    );
    assert_eq!(
        refused.to_string(),
        "the result would take 400000 us, expected 350000 at most; try again in 50000 us"
    );
}

#[test]
fn requests_of_an_idle_function_are_never_too_late() {
    let mut late = rules(10);
    late.reject_late = true;
    let mut world = World::new(late);
    assert!(
        world.offer(None).is_some(),
        "its start is asked for by this request"
    );
}
