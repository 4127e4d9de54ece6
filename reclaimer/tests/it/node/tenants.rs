//! Several stores under one daemon.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tetris_node::engine::Reclaimer;
use tetris_node::engine::commands::now_ms;
use tetris_node::report::{StoreStatus, Trigger};
use tetris_node::room::{RoomNeed, RoomRefusal};
use tetris_store_layout::{CreateOptions, Store};

use crate::node::fixture::{Fixture, HOUR_MS, expire_after_a_minute, in_two_minutes, pass};

#[test]
fn each_store_has_its_own_policy() {
    let fixture = Fixture::new();
    let (a, b) = (fixture.store("a"), fixture.store("b"));
    let config = fixture.config(&["a", "b"], |file| {
        let lasting = file.policy.store.clone();
        expire_after_a_minute(file);
        file.policy.stores.insert("b".to_owned(), lasting);
    });
    let mut reclaimer = Reclaimer::new(config, false, now_ms());
    drop(fixture.load("a", "one", 1));
    drop(fixture.load("b", "one", 1));
    pass(&mut reclaimer, in_two_minutes());
    assert!(a.objects().unwrap().objects.is_empty());
    assert_eq!(b.objects().unwrap().objects.len(), 1);
}

#[test]
fn the_pressure_of_one_store_takes_nothing_that_another_is_guaranteed() {
    let fixture = Fixture::new();
    let (a, b) = (fixture.store("a"), fixture.store("b"));
    let config = fixture.config(&["a", "b"], |file| {
        let mut guaranteed = file.policy.store.clone();
        guaranteed.guaranteed_bytes = 250_000;
        file.policy.stores.insert("b".to_owned(), guaranteed);
    });
    let mut reclaimer = Reclaimer::new(config, false, now_ms());
    for seed in 1..5 {
        drop(fixture.load("b", &format!("b{seed}"), seed));
    }
    drop(fixture.load("a", "a", 9));
    let everything = RoomNeed {
        store: "a".to_owned(),
        bytes: a.usage().unwrap().capacity,
        inodes: 0,
        ..RoomNeed::default()
    };
    let passed = reclaimer.pass(Trigger::Request, &[everything], now_ms());
    assert_eq!(passed.rooms[0].refused, Some(RoomRefusal::Policy));
    // What `b` has beyond its guarantee went, one object of four being more than that leaves three.
    assert_eq!(b.objects().unwrap().objects.len(), 3);
    assert!(a.objects().unwrap().objects.is_empty());
}

#[test]
fn a_store_that_is_missing_does_not_keep_the_others_waiting_and_is_opened_when_it_comes() {
    let fixture = Fixture::new();
    fixture.store("a");
    let config = fixture.config(&["b", "a"], expire_after_a_minute);
    let mut reclaimer = Reclaimer::new(config, false, now_ms());
    drop(fixture.load("a", "one", 1));
    let passed = pass(&mut reclaimer, in_two_minutes());
    assert_eq!(passed.report.stores.len(), 1);
    let missing = passed.status.stores.iter().find(|store| store.name == "b");
    let error = missing.unwrap().error.clone().unwrap();
    assert!(
        error.contains(fixture.path("b").to_str().unwrap()),
        "{error}"
    );
    assert!(!passed.report.errors.is_empty());
    fixture.store("b");
    let passed = pass(&mut reclaimer, in_two_minutes());
    let names: Vec<_> = passed
        .status
        .stores
        .iter()
        .map(|store| &store.name)
        .collect();
    assert_eq!(names, ["b", "a"], "in the order of the configuration");
    assert!(
        passed
            .status
            .stores
            .iter()
            .all(|store| store.error.is_none())
    );
    assert!(passed.report.errors.is_empty());
}

#[test]
fn a_store_in_the_place_of_another_is_not_taken_for_it() {
    let fixture = Fixture::new();
    let old = fixture.store("a");
    let config = fixture.config(&["a"], expire_after_a_minute);
    let mut reclaimer = Reclaimer::new(config, false, now_ms());
    let id = pass(&mut reclaimer, now_ms()).status.stores[0].id.clone();
    std::fs::rename(fixture.path("a"), fixture.path("elsewhere")).unwrap();
    let gone = pass(&mut reclaimer, now_ms());
    assert!(gone.status.stores[0].error.is_some());
    let new = Store::create(fixture.path("a"), &CreateOptions::default()).unwrap();
    assert_ne!(new.id(), old.id());
    drop(fixture.load("a", "one", 1));
    let passed = pass(&mut reclaimer, now_ms());
    assert_ne!(passed.status.stores[0].id, id);
    assert_eq!(passed.status.stores[0].models.len(), 1);
    pass(&mut reclaimer, in_two_minutes() + HOUR_MS);
    assert!(new.objects().unwrap().objects.is_empty());
}

#[test]
fn a_new_configuration_takes_force_and_keeps_what_is_known() {
    let fixture = Fixture::new();
    let (a, _b) = (fixture.store("a"), fixture.store("b"));
    let mut reclaimer = Reclaimer::new(fixture.config(&["a"], |_| {}), false, now_ms());
    drop(fixture.load("a", "one", 1));
    pass(&mut reclaimer, in_two_minutes());
    assert_eq!(a.objects().unwrap().objects.len(), 1);
    reclaimer.reconfigure(fixture.config(&["b", "a"], expire_after_a_minute));
    let passed = pass(&mut reclaimer, in_two_minutes());
    assert_eq!(passed.status.stores.len(), 2);
    assert!(a.objects().unwrap().objects.is_empty());
    reclaimer.reconfigure(fixture.config(&["b"], |_| {}));
    assert_eq!(pass(&mut reclaimer, now_ms()).status.stores.len(), 1);
}

#[test]
fn the_status_has_the_objects_that_are_there_and_keeps_one_list_while_nothing_changes() {
    let fixture = Fixture::new();
    let store = fixture.store("a");
    let config = fixture.config(&["a"], |file| {
        expire_after_a_minute(file);
        file.policy.store.limit_bytes = Some(1 << 20);
    });
    let mut reclaimer = Reclaimer::new(config, false, now_ms());
    let used = fixture.load("a", "one", 1);
    drop(fixture.load("a", "two", 2));
    let ids = |store: &Store| -> BTreeSet<_> {
        let objects = store.objects().unwrap().objects;
        objects.iter().map(|entry| entry.object.id).collect()
    };
    let told_ids = |status: &StoreStatus| -> BTreeSet<_> {
        status.objects.iter().map(|object| object.id).collect()
    };
    let mut told = pass(&mut reclaimer, now_ms()).status.stores.remove(0);
    assert_eq!(told.limit_bytes, Some(1 << 20));
    assert_eq!(told.objects.len(), 2);
    assert_eq!(told_ids(&told), ids(&store));
    // The folder's time stamp is trusted once it is older than a second.
    let deadline = Instant::now() + Duration::from_mins(1);
    loop {
        let next = pass(&mut reclaimer, now_ms()).status.stores.remove(0);
        if Arc::ptr_eq(&told.objects, &next.objects) {
            break;
        }
        assert!(
            Instant::now() < deadline,
            "each pass made a list of its own"
        );
        std::thread::sleep(Duration::from_millis(50));
        told = next;
    }
    let freed = pass(&mut reclaimer, in_two_minutes())
        .status
        .stores
        .remove(0);
    assert_eq!(freed.objects.len(), 1);
    assert_eq!(told_ids(&freed), ids(&store));
    drop(used);
}
