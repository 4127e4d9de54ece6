//! Loads that wait for room.

use tetris_node::engine::Reclaimer;
use tetris_node::engine::commands::now_ms;
use tetris_node::report::Trigger;
use tetris_node::room::{RoomNeed, RoomRefusal};
use tetris_reclaimer_core::Reason;
use tetris_store_layout::RecordUse;

use crate::node::fixture::Fixture;

fn need(store: &str, bytes: u64) -> RoomNeed {
    RoomNeed {
        store: store.to_owned(),
        bytes,
        inodes: 0,
        ..RoomNeed::default()
    }
}

/// More than the free bytes, by half of the six idle objects: other tests use and free `/dev/shm`
/// at the same time.
fn some_objects_more(store: &tetris_store_layout::Store) -> u64 {
    store.usage().unwrap().free + 300_000
}

#[test]
fn a_waiting_load_gets_room_at_once_however_young_the_rest_is() {
    let fixture = Fixture::new();
    let store = fixture.store("a");
    let mut reclaimer = Reclaimer::new(fixture.config(&["a"], |_| {}), false, now_ms());
    let used = fixture.load("a", "held", 1);
    for seed in 2..8 {
        drop(fixture.load("a", &format!("idle{seed}"), seed));
    }
    let needs = [need("a", some_objects_more(&store))];
    let passed = reclaimer.pass(Trigger::Request, &needs, now_ms());
    let freed = passed.report.stores[0].freed[&Reason::Pressure];
    assert!(freed.objects >= 1);
    assert!(passed.rooms[0].freed_bytes >= 102_400);
    drop(used);
}

#[test]
fn a_load_that_asks_for_more_than_may_go_is_told_what_is_missing() {
    let fixture = Fixture::new();
    let store = fixture.store("a");
    let mut reclaimer = Reclaimer::new(fixture.config(&["a"], |_| {}), false, now_ms());
    let used = fixture.load("a", "held", 1);
    let usage = store.usage().unwrap();
    let passed = reclaimer.pass(Trigger::Request, &[need("a", usage.capacity * 2)], now_ms());
    assert_eq!(passed.rooms[0].refused, Some(RoomRefusal::TooLarge));
    assert!(passed.rooms[0].missing_bytes >= usage.capacity);
    assert_eq!(passed.status.shortfalls[0].goal, "requests");
    assert_eq!(store.objects().unwrap().objects.len(), 1);
    drop(used);
}

#[test]
fn a_store_makes_room_within_its_limit_from_its_own() {
    let fixture = Fixture::new();
    let (a, b) = (fixture.store("a"), fixture.store("b"));
    let config = fixture.config(&["a", "b"], |file| {
        let mut limited = file.policy.store.clone();
        limited.limit_bytes = Some(250_000);
        file.policy.stores.insert("a".to_owned(), limited);
    });
    let mut reclaimer = Reclaimer::new(config, false, now_ms());
    drop(fixture.load("a", "one", 1));
    drop(fixture.load("a", "two", 2));
    drop(fixture.load("b", "three", 3));
    let passed = reclaimer.pass(Trigger::Request, &[need("a", 100_000)], now_ms());
    assert_eq!(passed.rooms[0].refused, None);
    assert_eq!(a.objects().unwrap().objects.len(), 1);
    assert_eq!(b.objects().unwrap().objects.len(), 1);
    // More than its limit is not to be had, however much is free.
    let passed = reclaimer.pass(Trigger::Request, &[need("a", 300_000)], now_ms());
    assert_eq!(passed.rooms[0].refused, Some(RoomRefusal::Limit));
    assert_eq!(passed.rooms[0].missing_bytes, 50_000);
    assert_eq!(b.objects().unwrap().objects.len(), 1);
}

#[test]
fn a_need_of_a_store_that_is_not_there_is_refused() {
    let fixture = Fixture::new();
    fixture.store("a");
    let mut reclaimer = Reclaimer::new(fixture.config(&["a"], |_| {}), false, now_ms());
    let passed = reclaimer.pass(Trigger::Request, &[need("b", 1)], now_ms());
    assert_eq!(passed.rooms[0].refused, Some(RoomRefusal::Unavailable));
}

#[test]
fn free_room_is_granted_without_a_pass_and_other_needs_wait_for_one() {
    let fixture = Fixture::new();
    let store = fixture.store("a");
    let config = fixture.config(&["a"], |file| {
        file.policy.store.limit_bytes = Some(250_000);
    });
    let mut reclaimer = Reclaimer::new(config, false, now_ms());
    let small = [need("a", 100_000)];
    assert_eq!(
        reclaimer.grant_free(&small),
        [None],
        "no pass has seen the store"
    );
    reclaimer.pass(Trigger::Start, &[], now_ms());
    let granted = reclaimer.grant_free(&small)[0].unwrap();
    assert_eq!((granted.refused, granted.missing_bytes), (None, 0));
    // What was published since the pass counts.
    drop(fixture.load("a", "one", 1));
    drop(fixture.load("a", "two", 2));
    let needs = [
        need("a", 100_000),
        need("b", 1),
        need("a", 10),
        need("a", store.usage().unwrap().capacity * 2),
    ];
    let rooms = reclaimer.grant_free(&needs);
    let are_granted: Vec<_> = rooms.iter().map(Option::is_some).collect();
    assert_eq!(are_granted, [false, false, true, false]);
    // Loads that began meanwhile are counted by the next pass.
    let passed = reclaimer.pass(Trigger::Interval, &[], now_ms());
    assert_eq!(passed.report.stores[0].loads.missed_bytes, 200_000);
    assert_eq!(store.objects().unwrap().objects.len(), 2);
}

#[test]
fn a_need_for_records_waits_for_a_pass() {
    let fixture = Fixture::new();
    fixture.store("a");
    let mut reclaimer = Reclaimer::new(fixture.config(&["a"], |_| {}), false, now_ms());
    reclaimer.pass(Trigger::Start, &[], now_ms());
    let of_records = RoomNeed {
        records: RecordUse { bytes: 1, files: 1 },
        ..need("a", 1)
    };
    assert_eq!(reclaimer.grant_free(&[of_records]), [None]);
}
