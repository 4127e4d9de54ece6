//! The scaler's program in a cgroup with the limit that it ships with, under hostile clients at all of its ports: its
//! pages and KEDA's external scaler.
//!
//! `TETRIS_SIEGE_SECONDS` sets the duration.

use std::io::Write as _;
use std::time::{Duration, Instant};

use tetris_hostile::cgroup::Cgroup;
use tetris_hostile::clients::{Paths, connect};
use tetris_hostile::memory::private_bytes;
use tetris_hostile::siege;

use crate::whole::operator::Operator;
use crate::whole::world::World;

/// Limit of the shipped Deployment (`deploy/base/scaler/deployment.yaml`).
const LIMIT: u64 = 512 << 20;
/// Questions before the attack: all parts of the scaler have been used.
const WARM: usize = 100;
/// Memory that the scaler may keep besides a fifth of that before: caches and arenas of the C library.
const KEPT: u64 = 32 << 20;
/// Number of looks whether memory is back, a second apart.
const LOOKS: u64 = 90;

const PAGES: Paths = Paths {
    victim: "/healthz",
    flood: "/metrics",
    waiting: "/metrics",
};
const KEDA: Paths = Paths {
    victim: "/externalscaler.ExternalScaler/IsActive",
    flood: "/externalscaler.ExternalScaler/StreamIsActive",
    waiting: "/externalscaler.ExternalScaler/StreamIsActive",
};

/// Asks for a page, and returns the time that it took.
async fn ask(operator: &Operator) -> Duration {
    let asked = Instant::now();
    let page = operator.page("/healthz").await.unwrap();
    assert!(page.contains(" 200 OK"), "{page}");
    asked.elapsed()
}

#[tokio::test]
async fn under_siege_the_scaler_scales_within_its_memory_and_gives_it_back() {
    let cgroup = match Cgroup::new("scaler", LIMIT) {
        Ok(cgroup) => cgroup,
        Err(reason) => {
            said(&format!("SKIPPED: limit of the scaler: {reason}"));
            return;
        }
    };
    // On their own threads: what the test asks waits for no hostile client.
    let hostile = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let world = World::new().await;
    world.function("f", 150.0);
    let mut operator = world.operator_in(&cgroup, "a");
    world.until_ready("f", 2).await;
    let mut unbothered = Duration::ZERO;
    for _ in 0..WARM {
        unbothered = unbothered.max(ask(&operator).await);
    }
    let memory = |operator: &Operator| private_bytes(operator.process_id());
    let before = memory(&operator);

    for (port, paths) in [(operator.pages, PAGES), (operator.keda, KEDA)] {
        hostile.spawn(siege::run(port, paths, connect));
    }
    let began = Instant::now();
    let (mut most, mut slowest, mut asked) = (before, Duration::ZERO, 0);
    while began.elapsed() < siege::duration() {
        assert!(operator.is_running(), "{most} bytes at most");
        slowest = slowest.max(ask(&operator).await);
        most = most.max(memory(&operator));
        asked += 1;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // It does its work meanwhile.
    world.loads.set("f", 450.0);
    world.until_ready("f", 6).await;
    most = most.max(memory(&operator));
    hostile.shutdown_background();

    let allowed = before + before / 5 + KEPT;
    let mut after = memory(&operator);
    for _ in 0..LOOKS {
        if after <= allowed {
            break;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        after = memory(&operator);
    }
    said(&format!(
        "private bytes: {before} before, {most} at most, {after} after; {asked} questions, the slowest {slowest:?}, {unbothered:?} before"
    ));
    assert!(operator.is_running());
    assert!(after <= allowed, "{after} bytes, {before} before");
}

fn said(text: &str) {
    drop(writeln!(std::io::stderr(), "{text}"));
}
