//! Sixteen processes load, check, derive and drop 24 models in a store that holds a third of them and is short of bytes
//! or of files all the time. Workers, the node's daemon and collectors are killed at random, and started again.
//!
//! At any time no process reads a wrong byte (INV-1, INV-2), and nothing that one of them maps loses its name (INV-3).
//! Whenever everything stands still, nothing partial or left over is in the store (INV-5), and the daemon's counters
//! agree with the file system. In the end all of it can be reclaimed (INV-4).
//!
//! The long form reports its progress, and prints at the end what happened:
//!
//! ```text
//! TETRIS_TORTURE_EVENTS=20000 cargo test -p tetris-tests --test it torture:: -- --nocapture
//! ```
//!
//! `TETRIS_TORTURE_SEED` makes the same random choices again; what comes of them depends on who is faster.

use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::ensure;
use tetris_tests::skip::is_root;
use tetris_tests::torture::{Arena, What};
use tetris_tests::{skip, worker_exe};

/// Operations of the short form.
const EVENTS: u64 = 4_000;
/// Operations between two times at which everything stands still, as a share of all.
const AUDITS: u64 = 4;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|error| panic!("{name}={text}: {error}")))
}

/// Not through `println!`, which the test harness swallows when a test passes.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Least number of events of each kind for a meaningful test.
fn required(events: u64) -> [(What, u64); 12] {
    [
        (What::LoadAttached, events / 100),
        (What::LoadPublished, events / 100),
        (What::Derived("new".into()), 1),
        (What::Derived("shared".into()), 1),
        (What::Scribbled, 1),
        (What::Collected, 1),
        (What::RoomMade, 1),
        (What::FullOfBytes, 1),
        (What::FullOfFiles, 1),
        (What::WorkerKilled, events / 50),
        (What::DaemonKilled, events / 1_000 + 1),
        (What::Audited, 1),
    ]
}

fn torture(arena: &mut Arena, events: u64) -> anyhow::Result<()> {
    let begun = Instant::now();
    let deadline = Duration::from_millis(120_000 + 50 * events);
    let mut next_audit = events / AUDITS;
    loop {
        arena.step()?;
        let done = arena.tally.operations();
        if done >= next_audit {
            arena.audit()?;
            next_audit = done + events / AUDITS;
            if events > EVENTS {
                say(&format!(
                    "{done} of {events} operations, {:?}",
                    begun.elapsed()
                ));
            }
        }
        let missing = required(events)
            .into_iter()
            .find(|(what, least)| arena.tally.count(what) < *least);
        if done >= events && missing.is_none() {
            return arena.finish();
        }
        ensure!(
            begun.elapsed() < deadline,
            "{done} of {events} operations, missing: {missing:?}"
        );
    }
}

/// Says with which choices a test failed, whichever way it did.
struct Told(u64);

impl Drop for Told {
    fn drop(&mut self) {
        if std::thread::panicking() {
            say(&format!("TETRIS_TORTURE_SEED={}", self.0));
        }
    }
}

#[test]
fn no_byte_is_wrong_and_none_is_lost_or_left_when_processes_are_killed() {
    if !is_root() {
        skip!("needs root to mount a tmpfs of its own");
    }
    let events = number("TETRIS_TORTURE_EVENTS").unwrap_or(EVENTS);
    let seed = number("TETRIS_TORTURE_SEED").unwrap_or_else(rand::random);
    let _told = Told(seed);
    let begun = Instant::now();
    let mut arena = Arena::new(worker_exe!(), seed).unwrap();
    let done = torture(&mut arena, events);
    if done.is_err() || events > EVENTS {
        let (tally, took) = (&arena.tally, begun.elapsed());
        say(&format!("{tally}\nseed {seed}, {took:?}"));
    }
    done.unwrap();
}
