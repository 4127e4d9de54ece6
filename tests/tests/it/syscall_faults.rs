//! Each system call of each scenario fails once with each error that it can return. The process does not
//! die, what it returns is right or an error that names a path, and the store that it leaves is whole: every
//! name is true, nothing is referenced, a load works, everything can be reclaimed (INV-1, INV-4, INV-5).
//!
//! `TETRIS_FAULTS=all` runs all of them; otherwise a sample, the same one every time.

use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tetris_store_layout::{ObjectRef, Store};
use tetris_tests::faults::{Check, Injection, Places, SCENARIOS, Scenario, reason_against};
use tetris_tests::skip;
use tetris_tests::skip::is_root;

/// Injections per scenario in the short form.
const SAMPLE: usize = 80;

/// Number of attempts to reach a call.
const ATTEMPTS: usize = 10;

fn exe() -> &'static str {
    env!("CARGO_BIN_EXE_tetris-fault-worker")
}

fn say(line: &str) {
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// Evenly spread over all of them.
fn sample(all: Vec<Injection>) -> Vec<Injection> {
    let everything = std::env::var_os("TETRIS_FAULTS").is_some_and(|value| value == "all");
    if everything || all.len() <= SAMPLE {
        return all;
    }
    let count = all.len();
    let chosen = all.into_iter().enumerate();
    let chosen = chosen.filter(|(index, _)| index * SAMPLE % count < SAMPLE);
    chosen.map(|(_, injection)| injection).collect()
}

/// Lets one call fail and checks what comes of it. How many calls a process makes may depend on the order in
/// which a folder is listed, and on how long `/proc/locks` is: when the call is not reached, it is tried again.
/// `false` when it is never reached.
fn inject(places: &Places, check: &Check, injection: &Injection) -> anyhow::Result<bool> {
    for _ in 0..ATTEMPTS {
        let (run, traced) = places.run(Some(injection))?;
        check.require(&run, &traced, injection)?;
        if traced.hit {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Runs each injection; returns how many were run, how many there are, and what went wrong.
fn run(scenario: Scenario) -> (usize, usize, Vec<String>) {
    let places = Places::new(exe(), scenario).unwrap();
    let (_, clean) = places.run(None).unwrap();
    let check = Check::new(&places, &clean).unwrap();
    let all = clean.injections.len();
    let chosen = sample(clean.injections);
    let (next, missed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let wrong = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(injection) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
                    match inject(&places, &check, injection) {
                        Ok(true) => {}
                        Ok(false) => {
                            missed.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(error) => {
                            let mut wrong = wrong.lock().unwrap_or_else(PoisonError::into_inner);
                            wrong.push(format!("{scenario:?}: {injection:?}\n    {error:#}"));
                        }
                    }
                }
            });
        }
    });
    let missed = missed.into_inner();
    assert!(
        missed * 20 <= chosen.len(),
        "{scenario:?}: {missed} calls were never reached"
    );
    (chosen.len() - missed, all, wrong.into_inner().unwrap())
}

#[test]
fn a_system_call_that_fails_breaks_nothing() {
    if let Some(reason) = reason_against() {
        skip!("{reason}");
    }
    let (mut ran, mut of, mut wrong) = (0, 0, Vec::new());
    for scenario in SCENARIOS {
        if scenario == Scenario::OwnerReclaim && !is_root() {
            say("OwnerReclaim: left out, it needs root to become another user");
            continue;
        }
        let (chosen, all, failed) = run(scenario);
        say(&format!(
            "{scenario:?}: {chosen} of {all} injections, {} wrong",
            failed.len()
        ));
        (ran, of) = (ran + chosen, of + all);
        wrong.extend(failed);
    }
    say(&format!("{ran} of {of} injections"));
    assert!(
        wrong.is_empty(),
        "{} wrong\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// A publisher whose object is quarantined between P7 and P8 does not give it its name back.
#[test]
fn what_is_quarantined_while_it_is_published_does_not_come_back() {
    if let Some(reason) = reason_against() {
        skip!("{reason}");
    }
    let places = Places::new(exe(), Scenario::Publish).unwrap();
    let (run, stopped) = places.stop_behind("linkat").unwrap();
    let store = Store::open(&run.job.store).unwrap();
    // The first that it publishes.
    let object = ObjectRef::of(&[]);
    let deadline = Instant::now() + Duration::from_mins(1);
    while !store.contains(&object) {
        assert!(Instant::now() < deadline, "nothing is published");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(store.quarantine(&object).unwrap());
    let outcome = stopped.go().unwrap();
    let error = outcome.error.unwrap();
    assert!(error.contains("disappears"), "{error}");
    assert!(!store.contains(&object));
    let aside = run.job.store.join("quarantine-v1").join(object.file_name());
    assert_eq!(std::fs::metadata(aside).unwrap().nlink(), 1);
}
