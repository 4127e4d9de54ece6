//! A process alone is killed at every step in turn. Each time the store is sound at once, nothing is
//! allocated that has no name, and everything can be reclaimed (INV-1, INV-4, INV-5).

use std::collections::BTreeSet;

use tetris_tests::check::{require_reclaimable, require_tidy};
use tetris_tests::crash::{Crashes, SCENARIOS, step_names};
use tetris_tests::model::{cold_model, pull_model};
use tetris_tests::task::Scenario;
use tetris_tests::worker_exe;

fn kill_at_every_step(scenario: Scenario) {
    let mut crashes = Crashes::new(worker_exe!(), None).unwrap();
    crashes.write_models(scenario).unwrap();
    let empty = crashes.scratch.empty_usage();
    if scenario == Scenario::Map {
        crashes.pin().unwrap();
    }
    let steps = crashes.count(scenario).unwrap();
    for at in 1..=steps.len() {
        crashes.prepare(scenario, at).unwrap();
        let victim = crashes.run(scenario, Some(at)).unwrap();
        let place = format!("{scenario:?} killed at step {at} of {steps:?}");
        assert!(victim.finished.was_killed(), "{place}: {victim:?}");
        assert_eq!(victim.steps.len(), at, "{place}: {victim:?}");
        let store = crashes.scratch.store();
        require_tidy(store, empty).unwrap_or_else(|error| panic!("{place}: {error:#}"));
        crashes.unpin();
        let store = crashes.scratch.store();
        require_reclaimable(store, empty).unwrap_or_else(|error| panic!("{place}: {error:#}"));
        if scenario == Scenario::Map {
            crashes.pin().unwrap();
        }
    }
}

#[test]
fn a_publisher_killed_at_any_step_leaves_nothing_partial() {
    kill_at_every_step(Scenario::Publish);
}

#[test]
fn a_reader_killed_at_any_step_leaves_no_reference() {
    kill_at_every_step(Scenario::Map);
}

#[test]
fn a_reclaimer_killed_at_any_step_leaves_the_object_whole_or_gone() {
    kill_at_every_step(Scenario::Reclaim);
}

#[test]
fn a_writer_of_records_killed_at_any_step_leaves_whole_records() {
    kill_at_every_step(Scenario::Records);
}

#[test]
fn a_first_load_killed_at_any_step_leaves_a_sound_store() {
    kill_at_every_step(Scenario::ColdLoad);
}

#[test]
fn a_load_of_reclaimed_objects_killed_at_any_step_leaves_a_sound_store() {
    kill_at_every_step(Scenario::Reload);
}

#[test]
fn a_pull_killed_at_any_step_leaves_a_sound_store_and_goes_on() {
    let crashes = Crashes::new(worker_exe!(), None).unwrap();
    crashes.write_models(Scenario::Pull).unwrap();
    let (store, empty) = (crashes.scratch.store(), crashes.scratch.empty_usage());
    let steps = crashes.count(Scenario::Pull).unwrap();
    for at in 1..=steps.len() {
        let victim = crashes.run(Scenario::Pull, Some(at)).unwrap();
        let place = format!("killed at step {at} of {steps:?}");
        assert!(victim.finished.was_killed(), "{place}: {victim:?}");
        require_tidy(store, empty).unwrap_or_else(|error| panic!("{place}: {error:#}"));
        let model = crashes.scratch.models().join(cold_model(at as u64));
        pull_model(store, &model).unwrap_or_else(|error| panic!("{place}: {error:#}"));
        require_reclaimable(store, empty).unwrap_or_else(|error| panic!("{place}: {error:#}"));
    }
}

#[test]
fn a_collector_killed_at_any_step_leaves_a_sound_store() {
    kill_at_every_step(Scenario::Collect);
}

#[test]
fn records_that_a_killed_start_quarantined_in_part_are_quarantined_by_the_next_one() {
    let crashes = Crashes::new(worker_exe!(), None).unwrap();
    crashes.write_models(Scenario::Quarantine).unwrap();
    let (store, empty) = (crashes.scratch.store(), crashes.scratch.empty_usage());
    let steps = crashes.count(Scenario::Quarantine).unwrap();
    std::fs::remove_dir_all(store.suspect_dir()).unwrap();
    require_reclaimable(store, empty).unwrap();
    for at in 1..=steps.len() {
        crashes.prepare(Scenario::Quarantine, at).unwrap();
        let objects = store.objects().unwrap().objects;
        let victim = crashes.run(Scenario::Quarantine, Some(at)).unwrap();
        assert!(victim.finished.was_killed(), "step {at}: {victim:?}");
        let moved = store.records_quarantined().unwrap().files;
        assert_eq!(moved, at as u64, "step {at}");
        let rest = store.set_records_aside().unwrap();
        assert_eq!(moved + rest, steps.len() as u64, "step {at}");
        assert_eq!(store.record_use().unwrap().files, 0);
        // The objects are there, and are no more than before.
        assert_eq!(store.objects().unwrap().objects.len(), objects.len());
        std::fs::remove_dir_all(store.suspect_dir()).unwrap();
        require_reclaimable(store, empty).unwrap_or_else(|error| panic!("step {at}: {error:#}"));
    }
}

#[test]
fn every_step_of_the_protocols_is_a_crash_point() {
    let mut crashes = Crashes::new(worker_exe!(), None).unwrap();
    crashes.write_models(Scenario::ColdLoad).unwrap();
    crashes.pin().unwrap();
    let mut points = BTreeSet::new();
    // While a daemon quarantines records, no other process works on them.
    for scenario in SCENARIOS.into_iter().chain([Scenario::Quarantine]) {
        points.extend(crashes.count(scenario).unwrap());
    }
    assert_eq!(points, step_names());
}
