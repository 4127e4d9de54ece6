//! Objects that the daemon itself keeps referenced, and gives up for room.

use std::sync::{Arc, Mutex};

use tetris_agent::Model;
use tetris_node::engine::Reclaimer;
use tetris_node::engine::commands::now_ms;
use tetris_node::report::Trigger;
use tetris_node::room::{DaemonReferences, RoomNeed, RoomRefusal};

use crate::node::fixture::Fixture;

/// A part of the daemon that keeps models mapped.
#[derive(Clone, Default)]
struct Keeper(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    models: Vec<Model>,
    /// The stores asked for, each time.
    asked: Vec<Vec<String>>,
}

impl std::fmt::Debug for Keeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keeper")
    }
}

impl DaemonReferences for Keeper {
    fn release(&self, stores: &[String]) -> u64 {
        let mut kept = self.0.lock().unwrap();
        kept.asked.push(stores.to_vec());
        kept.models.drain(..).map(|_| 100_000).sum()
    }
}

impl Keeper {
    fn keep(&self, model: Model) {
        self.0.lock().unwrap().models.push(model);
    }

    fn asked(&self) -> usize {
        self.0.lock().unwrap().asked.len()
    }
}

/// A store of which nothing may go by its limit but what is kept and what is held.
fn reclaimer(fixture: &Fixture, keeper: Option<Keeper>, dry_run: bool) -> Reclaimer {
    let config = fixture.config(&["a", "b"], |file| {
        let mut limited = file.policy.store.clone();
        limited.limit_bytes = Some(250_000);
        file.policy.stores.insert("a".to_owned(), limited);
    });
    Reclaimer::new(config, dry_run, now_ms()).with_references(keeper)
}

fn need(bytes: u64) -> RoomNeed {
    RoomNeed {
        store: "a".to_owned(),
        bytes,
        inodes: 0,
        ..RoomNeed::default()
    }
}

#[test]
fn room_is_made_of_what_only_the_daemon_keeps() {
    let fixture = Fixture::new();
    let (a, _b) = (fixture.store("a"), fixture.store("b"));
    let keeper = Keeper::default();
    let mut reclaimer = reclaimer(&fixture, Some(keeper.clone()), false);
    keeper.keep(fixture.load("a", "one", 1));
    let used = fixture.load("a", "two", 2);
    let passed = reclaimer.pass(Trigger::Request, &[need(100_000)], now_ms());
    assert_eq!(passed.rooms[0].refused, None);
    assert_eq!(a.objects().unwrap().objects.len(), 1);
    assert_eq!(keeper.0.lock().unwrap().asked, [["a"]]);
    assert!(passed.status.shortfalls.is_empty());
    // Once: the rest is held by others.
    let passed = reclaimer.pass(Trigger::Request, &[need(200_000)], now_ms());
    assert_eq!(passed.rooms[0].refused, Some(RoomRefusal::Limit));
    assert_eq!(keeper.asked(), 2);
    drop(used);
}

#[test]
fn nothing_is_given_up_while_there_is_room() {
    let fixture = Fixture::new();
    let (a, _b) = (fixture.store("a"), fixture.store("b"));
    let keeper = Keeper::default();
    let mut reclaimer = reclaimer(&fixture, Some(keeper.clone()), false);
    keeper.keep(fixture.load("a", "one", 1));
    drop(fixture.load("a", "two", 2));
    let passed = reclaimer.pass(Trigger::Request, &[need(100_000)], now_ms());
    assert_eq!(passed.rooms[0].refused, None);
    let passed = reclaimer.pass(Trigger::Interval, &[], now_ms());
    assert!(passed.status.shortfalls.is_empty());
    assert_eq!((keeper.asked(), a.objects().unwrap().objects.len()), (0, 1));
}

#[test]
fn a_dry_run_and_a_daemon_without_a_mirror_give_up_nothing() {
    let fixture = Fixture::new();
    let (a, _b) = (fixture.store("a"), fixture.store("b"));
    let keeper = Keeper::default();
    keeper.keep(fixture.load("a", "one", 1));
    keeper.keep(fixture.load("a", "two", 2));
    for (dry_run, references) in [(true, Some(keeper.clone())), (false, None)] {
        let mut reclaimer = reclaimer(&fixture, references, dry_run);
        let passed = reclaimer.pass(Trigger::Request, &[need(100_000)], now_ms());
        assert!(passed.rooms[0].refused.is_some());
    }
    assert_eq!((keeper.asked(), a.objects().unwrap().objects.len()), (0, 2));
}
