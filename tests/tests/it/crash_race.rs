//! A process is killed at every step in turn while seven others publish, map, load and reclaim the
//! same objects. None of them ever sees wrong bytes or loses what it references, and what is left is
//! sound and can be reclaimed (INV-1, INV-3, INV-4, INV-5).

use tetris_tests::check::{require_reclaimable, require_sound, require_tidy};
use tetris_tests::crash::{Crashes, SCENARIOS};
use tetris_tests::process::Worker;
use tetris_tests::skip::is_root;
use tetris_tests::task::{RaceReport, Scenario};
use tetris_tests::{skip, worker_exe};

const RACERS: u64 = 7;
/// An arbitrary user without privileges.
const NOBODY: u32 = 65_534;

/// Number of times that each step is the last, by default once.
fn rounds() -> u64 {
    let rounds = std::env::var("TETRIS_CRASH_ROUNDS").ok();
    rounds.and_then(|rounds| rounds.parse().ok()).unwrap_or(1)
}

fn start_racers(crashes: &Crashes, round: u64) -> Vec<Worker> {
    let mut racers: Vec<_> = (0..RACERS)
        .map(|racer| crashes.racer(round * RACERS + racer))
        .collect();
    racers.iter_mut().for_each(Worker::wait_ready);
    racers.iter_mut().for_each(Worker::go);
    racers
}

fn kill_among_racers(scenarios: &[Scenario], uid: Option<u32>) {
    for round in 0..rounds() {
        let mut crashes = Crashes::new(worker_exe!(), uid).unwrap();
        let mut killed = 0;
        let mut planned = 0;
        for &scenario in scenarios {
            crashes.write_models(scenario).unwrap();
            crashes.pin().unwrap();
            // Counted alone: how many steps there are depends on what others do.
            let steps = crashes.count(scenario).unwrap().len();
            let racers = start_racers(&crashes, round);
            for at in 1..=steps {
                crashes.prepare(scenario, at).unwrap();
                let victim = crashes.run(scenario, Some(at)).unwrap();
                if victim.finished.was_killed() {
                    killed += 1;
                } else {
                    // Others had done some of it.
                    victim.finished.result::<()>();
                }
                require_sound(crashes.scratch.store())
                    .unwrap_or_else(|error| panic!("{scenario:?} at {at}: {error:#}"));
            }
            planned += steps;
            stop_racers(racers);
        }
        assert!(
            killed * 4 > planned,
            "only {killed} of {planned} were killed"
        );
        let empty = crashes.scratch.empty_usage();
        require_tidy(crashes.scratch.store(), empty).unwrap();
        crashes.unpin();
        require_reclaimable(crashes.scratch.store(), empty).unwrap();
    }
}

fn stop_racers(racers: Vec<Worker>) {
    let mut sum = RaceReport::default();
    for racer in racers {
        let report: RaceReport = racer.finish().result();
        sum.rounds += report.rounds;
        sum.reclaimed += report.reclaimed;
        sum.referenced += report.referenced;
        sum.loads += report.loads;
        sum.private_loads += report.private_loads;
        sum.private_reason = sum.private_reason.or(report.private_reason);
    }
    assert!(
        sum.reclaimed > 0 && sum.referenced > 0 && sum.loads > 0,
        "nothing raced: {sum:?}"
    );
    // The store has room: only objects that vanish under the publisher again and again are excused.
    assert!(sum.private_loads * 20 <= sum.loads, "{sum:?}");
}

#[test]
fn publishers_can_be_killed_among_others() {
    kill_among_racers(&[Scenario::Publish], None);
}

#[test]
fn readers_and_reclaimers_can_be_killed_among_others() {
    kill_among_racers(&[Scenario::Map, Scenario::Reclaim], None);
}

#[test]
fn writers_of_records_can_be_killed_among_others() {
    kill_among_racers(&[Scenario::Records], None);
}

#[test]
fn first_loads_can_be_killed_among_others() {
    kill_among_racers(&[Scenario::ColdLoad], None);
}

#[test]
fn later_loads_and_collectors_can_be_killed_among_others() {
    kill_among_racers(&[Scenario::Reload, Scenario::Collect], None);
}

#[test]
fn owners_without_privileges_can_be_killed_among_others() {
    if !is_root() {
        skip!("needs root to become another user; the other tests have run without privileges");
    }
    let all = if rounds() > 1 {
        &SCENARIOS[..]
    } else {
        &[Scenario::Reclaim]
    };
    kill_among_racers(all, Some(NOBODY));
}
