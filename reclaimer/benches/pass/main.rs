//! Time of a whole pass over 100,000 objects, 1,000 of them mapped, also while others hold 250,000
//! locks on the node, and processor time and memory of the idle daemon: of one machine, and as the
//! processes of a node.
//!
//! `cargo bench -p tetris-node`; `-- --rounds N` for more or fewer than 15, `-- --idle-secs N` for
//! the time over which the idle daemon is watched (120; 0 leaves it out), `-- --locks N` for other
//! numbers of locks (0 leaves them out), `-- --json FILE` to write the results to a file too. The
//! bars are 200 ms, 0.2 % of a core, and 64 MB (96 MB for all processes of a node, which need root);
//! the benchmark does not fail above them. The baseline
//! is the least that a pass without a memory of earlier ones does: list the folder, `stat` every
//! file, read `/proc/locks`. With locks of others it is that list alone, which takes half a minute.
#![expect(clippy::print_stdout, reason = "a benchmark prints its results")]

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tetris_agent::gc::{GcOptions, collect};
use tetris_node::config::{Config, ConfigFile};
use tetris_node::engine::Reclaimer;
use tetris_node::engine::commands::now_ms;
use tetris_node::report::Trigger;
use tetris_node::store::StoreConfig;
use tetris_reclaimer_core::Expiry;
use tetris_store_layout::{Access, CreateOptions, Mapping, Store};
use tetris_test_support::stats;

#[allow(dead_code, reason = "tests use the rest")]
mod fill;
mod idle;
mod locks;
mod processes;
#[allow(dead_code, reason = "tests use the rest")]
#[path = "../../tests/shared/processes.rs"]
mod running;
mod usage;

use crate::fill::{MAPPED, MODELS, OBJECTS_PER_MODEL, fill};
use crate::locks::{LOCKS, Locks, list_locks};

fn main() -> Result<()> {
    let rounds = number("--rounds").unwrap_or(15) as usize;
    let idle_secs = number("--idle-secs").unwrap_or(120);
    let dir = tempfile::tempdir_in("/dev/shm").context("the benchmark needs /dev/shm")?;
    let store = Store::create(dir.path().join("store"), &CreateOptions::default())?;
    println!(
        "filling a store with {} objects ...",
        MODELS * OBJECTS_PER_MODEL
    );
    let mapped = fill(&store)?;
    println!(
        "{} objects of {MODELS} models, {} mapped",
        MODELS * OBJECTS_PER_MODEL,
        mapped.len()
    );
    println!(
        "{:<52} {:>10} {:>10} {:>8}",
        "", "median", "slowest", "ratio"
    );
    let mut passes = Vec::new();
    let mut line = |what: &str, times: &[f64], baseline: &[f64]| {
        passes.push(line(what, times, baseline));
    };
    let walk = measure(rounds, || walk(&store))?;
    line("baseline: list, stat, /proc/locks", &walk, &walk);
    let asked = measure(rounds.min(5), || ask(&store))?;
    line("for comparison: every object is asked", &asked, &walk);
    let mut reclaimer = reclaimer(store.root(), |_| {})?;
    let first = measure(1, || pass(&mut reclaimer, now_ms()))?;
    line("first pass: everything is looked at", &first, &walk);
    // The folder's time stamp must be older than a second before it is trusted.
    std::thread::sleep(Duration::from_millis(1500));
    pass(&mut reclaimer, now_ms())?;
    let steady = measure(rounds, || pass(&mut reclaimer, now_ms()))?;
    line("pass, nothing has changed", &steady, &walk);
    let changed = measure(rounds, || {
        drop(store.publish(&now_ms().to_le_bytes(), Access::ReadOnly)?);
        pass(&mut reclaimer, now_ms())
    })?;
    line("pass, one object is new", &changed, &walk);
    let mut full_ms = now_ms();
    let full = measure(rounds, || {
        full_ms += 3_600_000;
        pass(&mut reclaimer, full_ms)
    })?;
    line("pass, all looked at anew (every 10 minutes)", &full, &walk);
    let gc = measure(rounds.min(5), || {
        let options = GcOptions::default().with_dry_run(true);
        collect(&store, &options)?;
        Ok(())
    })?;
    line("for comparison: `tetris gc --dry-run`", &gc, &walk);
    let locks = number("--locks").unwrap_or(LOCKS);
    if locks > 0 {
        let others = Locks::take(dir.path(), locks)?;
        let list = measure(1, list_locks)?;
        let listed = format!("/proc/locks with {locks} locks of others");
        line(&listed, &list, &list);
        let steady = measure(rounds, || pass(&mut reclaimer, now_ms()))?;
        line("pass with them, against the list", &steady, &list);
        drop(others);
    }
    let idle = if idle_secs > 0 {
        idle::idle(store.root(), idle_secs)?
    } else {
        Vec::new()
    };
    let freeing_s = free_everything(&store, mapped)?;
    let processes = processes::idle(idle_secs)?;
    if let Some(path) = argument("--json") {
        let report = json!({
            "objects": MODELS * OBJECTS_PER_MODEL,
            "mapped": MAPPED,
            "locks": locks,
            "rounds": rounds,
            "passes": passes,
            "idle_secs": idle_secs,
            "idle": idle,
            "processes": processes,
            "freeing_s": freeing_s,
        });
        std::fs::write(path, serde_json::to_string_pretty(&report)? + "\n")?;
    }
    Ok(())
}

fn argument(name: &str) -> Option<String> {
    std::env::args().skip_while(|arg| arg != name).nth(1)
}

fn number(name: &str) -> Option<u64> {
    argument(name)?.parse().ok()
}

fn measure(rounds: usize, mut work: impl FnMut() -> Result<()>) -> Result<Vec<f64>> {
    let mut times = Vec::new();
    for _ in 0..rounds {
        let begin = Instant::now();
        work()?;
        times.push(begin.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    Ok(times)
}

fn median(times: &[f64]) -> f64 {
    stats::median(times).unwrap_or(f64::NAN)
}

/// Prints a line; returns it as an object of the JSON file.
fn line(what: &str, times: &[f64], baseline: &[f64]) -> Value {
    let slowest = times.last().copied().unwrap_or(f64::NAN);
    let (middle, ratio) = (median(times), median(times) / median(baseline));
    println!("{what:<52} {middle:>7.1} ms {slowest:>7.1} ms {ratio:>8.2}");
    json!({"name": what, "median_ms": middle, "slowest_ms": slowest, "ratio": ratio})
}

fn reclaimer(root: &Path, change: impl FnOnce(&mut ConfigFile)) -> Result<Reclaimer> {
    let mut file = ConfigFile {
        stores: vec![StoreConfig {
            name: "bench".to_owned(),
            path: root.to_owned(),
            namespaces: Vec::new(),
            own: false,
        }],
        ..ConfigFile::default()
    };
    change(&mut file);
    let config: Config = file.check()?;
    Ok(Reclaimer::new(config, false, now_ms()))
}

fn pass(reclaimer: &mut Reclaimer, at_ms: u64) -> Result<()> {
    let passed = reclaimer.pass(Trigger::Interval, &[], at_ms);
    ensure!(
        passed.report.errors.is_empty(),
        "{:?}",
        passed.report.errors
    );
    Ok(())
}

fn ask(store: &Store) -> Result<()> {
    let mut locked = 0;
    for entry in store.objects()?.objects {
        locked += usize::from(store.is_held(&entry.object)?);
    }
    ensure!(locked == MAPPED, "{locked} objects are held");
    Ok(())
}

fn walk(store: &Store) -> Result<()> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(store.objects_dir())? {
        bytes += entry?.metadata()?.blocks() * 512;
    }
    let locks = std::fs::read("/proc/locks")?;
    ensure!(bytes > 0 && !locks.is_empty(), "nothing found");
    Ok(())
}

/// Frees all objects; returns the time in seconds.
fn free_everything(store: &Store, held: Vec<Mapping>) -> Result<f64> {
    drop(held);
    let before = store.objects()?.objects.len();
    let mut reclaimer = reclaimer(store.root(), |file| {
        file.policy.store.expiry = Expiry::Fixed;
        file.policy.store.keep_alive_secs = 0;
        file.policy.store.expire_after_secs = 0;
    })?;
    let begin = Instant::now();
    let passed = reclaimer.pass(Trigger::Interval, &[], now_ms() + 1000);
    let seconds = begin.elapsed().as_secs_f64();
    let left = store.objects()?.objects.len();
    ensure!(
        left == 0,
        "{left} objects are left; {:?}",
        passed.report.errors
    );
    println!("freeing all {before} objects and their records: {seconds:.2} s");
    Ok(seconds)
}
