//! Objects that a pass frees, and objects that it never frees.

use tetris_node::engine::Reclaimer;
use tetris_node::engine::commands::now_ms;
use tetris_node::report::{NodeStatus, ObjectState};
use tetris_reclaimer_core::Reason;
use tetris_store_layout::Holders;

use crate::node::fixture::{
    Fixture, HOUR_MS, count, expire_after_a_minute, in_two_minutes, pass, set_used,
};

#[test]
fn what_is_mapped_stays_and_goes_once_it_is_not() {
    let fixture = Fixture::new();
    let store = fixture.store("a");
    let config = fixture.config(&["a"], expire_after_a_minute);
    let mut reclaimer = Reclaimer::new(config, false, now_ms());
    let model = fixture.load("a", "bert", 1);
    let passed = pass(&mut reclaimer, in_two_minutes());
    assert_eq!(count(&passed.status.stores[0], ObjectState::Held), 1);
    assert!(passed.report.stores[0].freed.is_empty());
    drop(model);
    // The keep-alive window counts from when it was last seen held.
    let seen_ms = in_two_minutes();
    let passed = pass(&mut reclaimer, seen_ms + 30_000);
    assert_eq!(count(&passed.status.stores[0], ObjectState::Idle), 1);
    let passed = pass(&mut reclaimer, seen_ms + 120_000);
    let freed = passed.report.stores[0].freed[&Reason::KeepAliveExpired];
    assert_eq!(freed.objects, 1);
    assert_eq!(freed.bytes, 102_400, "pages, not bytes");
    assert!(store.objects().unwrap().objects.is_empty());
    // Its records go with it.
    assert_eq!(passed.report.stores[0].records_removed, 2);
    assert!(store.manifests().unwrap().is_empty());
    assert!(passed.status.stores[0].models.is_empty());
}

#[test]
fn a_dry_run_says_what_it_would_do_and_does_nothing() {
    let fixture = Fixture::new();
    let store = fixture.store("a");
    let config = fixture.config(&["a"], expire_after_a_minute);
    let mut reclaimer = Reclaimer::new(config, true, now_ms());
    drop(fixture.load("a", "bert", 1));
    let passed = pass(&mut reclaimer, in_two_minutes());
    assert!(passed.status.dry_run);
    let freed = passed.report.stores[0].freed[&Reason::KeepAliveExpired];
    assert_eq!(freed.objects, 1);
    assert_eq!(store.objects().unwrap().objects.len(), 1);
    assert_eq!(store.manifests().unwrap().len(), 1);
    reclaimer.keep(now_ms());
    assert!(store.foreign().unwrap().is_empty());
    assert!(!fixture.path("a").join("reclaimer-state").exists());
}

#[test]
fn by_default_nothing_goes_while_there_is_room() {
    let fixture = Fixture::new();
    let store = fixture.store("a");
    let mut reclaimer = Reclaimer::new(fixture.config(&["a"], |_| {}), false, now_ms());
    drop(fixture.load("a", "bert", 1));
    let passed = pass(&mut reclaimer, now_ms() + 24 * HOUR_MS);
    assert!(passed.report.stores[0].freed.is_empty());
    assert_eq!(store.objects().unwrap().objects.len(), 1);
}

/// `/dev/shm` is used by others, so the watermark is set below what is used by anyone.
#[test]
fn over_the_high_watermark_all_that_may_go_goes_on_the_way_to_the_low_one() {
    let fixture = Fixture::new();
    let store = fixture.store("a");
    // So that at least one percent of it is in use.
    let usage = store.usage().unwrap();
    let ballast = std::fs::File::create(fixture.path("ballast")).unwrap();
    let used = usage.capacity - usage.free;
    let two_percent = usage.capacity / 50;
    if used < two_percent {
        let len = two_percent - used;
        let flags = nix::fcntl::FallocateFlags::empty();
        nix::fcntl::fallocate(&ballast, flags, 0, len.cast_signed()).unwrap();
    }
    let config = fixture.config(&["a"], |file| {
        file.policy.high_watermark_percent = 1;
        file.policy.low_watermark_percent = 0;
    });
    let mut reclaimer = Reclaimer::new(config, false, now_ms());
    let used = fixture.load("a", "held", 1);
    drop(fixture.load("a", "idle", 2));
    assert!(reclaimer.over_watermark());
    // Within the keep-alive window nothing goes, and the pass reports it.
    let passed = pass(&mut reclaimer, now_ms());
    assert!(passed.report.stores[0].freed.is_empty());
    let missed = &passed.status.shortfalls[0];
    assert_eq!(missed.goal, "low-watermark");
    assert_eq!(missed.held_bytes, 102_400);
    assert_eq!(missed.young_bytes, 102_400);
    let passed = pass(&mut reclaimer, in_two_minutes());
    assert_eq!(passed.report.stores[0].freed[&Reason::Cost].objects, 1);
    assert_eq!(store.objects().unwrap().objects.len(), 1);
    drop(used);
}

#[test]
fn what_models_share_goes_when_the_last_of_them_does() {
    let fixture = Fixture::new();
    let store = fixture.store("a");
    let config = fixture.config(&["a"], expire_after_a_minute);
    let mut reclaimer = Reclaimer::new(config, false, now_ms());
    // Two files with one content have one manifest; a copy of the object is published under another
    // model.
    let first = fixture.load("a", "one", 7);
    let two = fixture.load("a", "two", 7);
    assert_eq!(store.objects().unwrap().objects.len(), 1);
    let passed = pass(&mut reclaimer, in_two_minutes());
    let store_status = |mut status: NodeStatus, holders: u64| {
        // The kernel hands its list out in pages: while other tests lock and unlock, one look may be wrong.
        for _ in 0..1_000 {
            status.count_holders(&Holders::read().unwrap());
            if status.stores[0].holders == holders {
                break;
            }
        }
        status.stores.remove(0)
    };
    let counted = store_status(passed.status, 2);
    assert_eq!(counted.holders, 2);
    assert_eq!(counted.saved_bytes, 102_400);
    assert!((counted.sharing_factor - 2.0).abs() < 1e-9);
    drop(first);
    let passed = pass(&mut reclaimer, in_two_minutes() + HOUR_MS);
    assert_eq!(store_status(passed.status, 1).holders, 1);
    drop(two);
    pass(&mut reclaimer, in_two_minutes() + 2 * HOUR_MS);
    assert!(store.objects().unwrap().objects.is_empty());
}

#[test]
fn loads_are_counted_as_hits_and_misses() {
    let fixture = Fixture::new();
    fixture.store("a");
    let config = fixture.config(&["a"], |_| {});
    let mut reclaimer = Reclaimer::new(config, false, now_ms());
    pass(&mut reclaimer, now_ms());
    let first = fixture.load("a", "bert", 1);
    let loads = pass(&mut reclaimer, now_ms()).report.stores[0].loads;
    assert_eq!((loads.hits, loads.misses), (0, 1));
    assert_eq!(loads.missed_bytes, 100_000);
    drop(first);
    let loads = pass(&mut reclaimer, now_ms()).report.stores[0].loads;
    assert_eq!((loads.hits, loads.misses, loads.missed_bytes), (0, 0, 0));
    let again = fixture.load("a", "bert", 1);
    let loads = pass(&mut reclaimer, now_ms() + 1000).report.stores[0].loads;
    assert_eq!((loads.hits, loads.hit_bytes), (1, 100_000));
    drop(again);
}

#[test]
fn what_was_set_aside_is_deleted_after_its_time_unless_somebody_maps_it() {
    let fixture = Fixture::new();
    let store = fixture.store("a");
    let config = fixture.config(&["a"], |file| file.quarantine_hours = 1);
    let mut reclaimer = Reclaimer::new(config, false, now_ms());
    let model = fixture.load("a", "bert", 1);
    let object = store.objects().unwrap().objects[0].object;
    assert!(store.quarantine(&object).unwrap());
    let passed = pass(&mut reclaimer, now_ms());
    assert_eq!(count(&passed.status.stores[0], ObjectState::Quarantined), 1);
    pass(&mut reclaimer, now_ms() + 2 * HOUR_MS);
    assert_eq!(
        store.quarantined().unwrap().objects.len(),
        1,
        "it is mapped"
    );
    drop(model);
    pass(&mut reclaimer, now_ms());
    assert_eq!(store.quarantined().unwrap().objects.len(), 1, "it is young");
    pass(&mut reclaimer, now_ms() + 2 * HOUR_MS);
    assert!(store.quarantined().unwrap().objects.is_empty());
}

/// Passes over a store with an idle model and one that is mapped, after the system's clock was set by `step_ms`.
fn freed_after_a_step(step_ms: i64) -> [u64; 3] {
    let fixture = Fixture::new();
    fixture.store("a");
    let config = fixture.config(&["a"], expire_after_a_minute);
    let start_ms = now_ms();
    let mut reclaimer = Reclaimer::new(config, false, start_ms);
    drop(fixture.load("a", "bert", 1));
    let mut freed = |system_ms: u64, after_ms: u64| {
        let now_ms = reclaimer.read_clocks(system_ms, after_ms);
        let passed = pass(&mut reclaimer, now_ms);
        let freed = passed.report.stores[0].freed.values();
        freed.map(|amount| amount.objects).sum()
    };
    let begun_ms = now_ms();
    let then_ms = |after_ms: u64| begun_ms.saturating_add_signed(step_ms) + after_ms;
    [
        freed(begun_ms, 0),
        // Half of the time after which it expires.
        freed(then_ms(30_000), 30_000),
        freed(then_ms(70_000), 70_000),
    ]
}

#[test]
fn objects_expire_in_their_time_though_the_clock_is_set_back_or_forward() {
    let day_ms = 24 * HOUR_MS.cast_signed();
    for step_ms in [0, -365 * day_ms, -day_ms, day_ms, 365 * day_ms] {
        assert_eq!(freed_after_a_step(step_ms), [0, 0, 1], "{step_ms}");
    }
}

#[test]
fn a_record_from_the_future_expires_too() {
    let fixture = Fixture::new();
    let store = fixture.store("a");
    let config = fixture.config(&["a"], expire_after_a_minute);
    let mut reclaimer = Reclaimer::new(config, false, now_ms());
    drop(fixture.load("a", "bert", 1));
    let manifest = store.manifests().unwrap()[0].id.to_string();
    let path = fixture.path("a/manifests-v1").join(manifest);
    set_used(&path, now_ms() + 1_000 * HOUR_MS);
    let start_ms = reclaimer.read_clocks(now_ms(), 0);
    assert!(
        pass(&mut reclaimer, start_ms).report.stores[0]
            .freed
            .is_empty()
    );
    let now_ms = reclaimer.read_clocks(start_ms + 70_000, 70_000);
    assert!(
        !pass(&mut reclaimer, now_ms).report.stores[0]
            .freed
            .is_empty()
    );
}
