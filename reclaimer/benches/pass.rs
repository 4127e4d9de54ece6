//! Time of a whole pass over 100,000 objects, 1,000 of them mapped, also while others hold 250,000
//! locks on the node, and processor time and memory of the idle daemon.
//!
//! `cargo bench -p tetris-node`; `-- --rounds N` for more or fewer than 15, `-- --idle-secs N` for
//! the time over which the idle daemon is watched (120; 0 leaves it out), `-- --locks N` for other
//! numbers of locks (0 leaves them out), `-- --json FILE` to write the results to a file too. The
//! bars are 200 ms, 0.2 % of a core and 64 MB; the benchmark does not fail above them. The baseline
//! is the least that a pass without a memory of earlier ones does: list the folder, `stat` every
//! file, read `/proc/locks`. With locks of others it is that list alone, which takes half a minute.
#![expect(clippy::print_stdout, reason = "a benchmark prints its results")]

use std::fs::File;
use std::io::Write as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use serde_json::{Value, json};
use tetris_agent::gc::{GcOptions, collect};
use tetris_node::config::{Config, ConfigFile};
use tetris_node::reclaimer::Reclaimer;
use tetris_node::reclaimer::engine::now_ms;
use tetris_node::report::Trigger;
use tetris_node::store::StoreConfig;
use tetris_reclaimer_core::Expiry;
use tetris_store_layout::{
    Access, CreateOptions, Digest, Dtype, Manifest, ManifestKind, ManifestObject, ManifestTensor,
    Mapping, ObjectKind, Store, TensorId, TensorPlace,
};

const MODELS: u64 = 1_000;
const OBJECTS_PER_MODEL: u64 = 100;
const MAPPED: usize = 1_000;
/// Locks of others on the node: 50 processes with 5,000 objects each.
const LOCKS: u64 = 250_000;
/// Locks on one file.
const LOCKS_PER_FILE: u64 = 500;
/// Between two passes of the idle daemon; the default.
const INTERVAL_SECS: u64 = 60;

fn main() -> Result<()> {
    let rounds = number("--rounds").unwrap_or(15) as usize;
    let idle_secs = number("--idle-secs").unwrap_or(120);
    let dir = tempfile::tempdir_in("/dev/shm").context("the benchmark needs /dev/shm")?;
    let store = Store::create(dir.path().join("store"), &CreateOptions::default())?;
    println!(
        "filling a store with {} objects ...",
        MODELS * OBJECTS_PER_MODEL
    );
    let held = fill(&store)?;
    println!(
        "{} objects of {MODELS} models, {} mapped",
        MODELS * OBJECTS_PER_MODEL,
        held.len()
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
    // The folder's time stamp has to be older than a second before it is trusted.
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
        idle(store.root(), idle_secs)?
    } else {
        Vec::new()
    };
    let freeing_s = free_everything(&store, held)?;
    if let Some(path) = argument("--json") {
        let report = json!({
            "objects": MODELS * OBJECTS_PER_MODEL,
            "mapped": MAPPED,
            "locks": locks,
            "rounds": rounds,
            "passes": passes,
            "idle_secs": idle_secs,
            "idle": idle,
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
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
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

/// Models of small tensors, each an object of its own, so that the number of objects is what
/// counts.
fn fill(store: &Store) -> Result<Vec<Mapping>> {
    let mut held = Vec::new();
    for model in 0..MODELS {
        let mut manifest = Manifest {
            kind: ManifestKind::Safetensors,
            source_size: 8 + OBJECTS_PER_MODEL * 8,
            data_start: 8,
            header_digest: Digest::of(&model.to_le_bytes()),
            metadata: Vec::new(),
            objects: Vec::new(),
            tensors: Vec::new(),
        };
        for number in 0..OBJECTS_PER_MODEL {
            let bytes = (model * OBJECTS_PER_MODEL + number).to_le_bytes();
            let published = store.publish(&bytes, Access::ReadOnly)?;
            if held.len() < MAPPED && number % 10 == 0 {
                held.push(published.mapping);
            }
            manifest.objects.push(ManifestObject {
                object: published.object,
                kind: ObjectKind::Tensor,
            });
            manifest.tensors.push(ManifestTensor {
                name: format!("layers.{number}.weight"),
                dtype: Dtype::U8,
                shape: vec![8],
                id: TensorId::of(&bytes),
                len: 8,
                source_offset: number * 8,
                place: Some(TensorPlace {
                    object: u32::try_from(number)?,
                    offset: 0,
                }),
            });
        }
        store.publish_manifest(&manifest)?;
    }
    Ok(held)
}

/// Locks on files that are none of a store's.
struct Locks {
    _files: Vec<File>,
}

impl Locks {
    fn take(dir: &Path, count: u64) -> Result<Self> {
        let mut files = Vec::new();
        for number in 0..count.div_ceil(LOCKS_PER_FILE) {
            let path = dir.join(format!("locked-{number}"));
            std::fs::write(&path, b"")?;
            let file = File::open(&path)?;
            std::fs::remove_file(&path)?;
            let left = count - number * LOCKS_PER_FILE;
            for byte in 0..left.min(LOCKS_PER_FILE) {
                let lock = libc::flock {
                    l_type: libc::F_RDLCK as libc::c_short,
                    l_whence: libc::SEEK_SET as libc::c_short,
                    // A byte is left out between two, or the kernel would make one lock of them.
                    l_start: (2 * byte).cast_signed(),
                    l_len: 1,
                    l_pid: 0,
                };
                fcntl(&file, FcntlArg::F_OFD_SETLK(&lock))?;
            }
            files.push(file);
        }
        Ok(Self { _files: files })
    }
}

fn list_locks() -> Result<()> {
    let locks = std::fs::read("/proc/locks")?;
    ensure!(!locks.is_empty(), "no locks were found");
    Ok(())
}

fn ask(store: &Store) -> Result<()> {
    let mut held = 0;
    for entry in store.objects()?.objects {
        held += usize::from(store.is_held(&entry.object)?);
    }
    ensure!(held == MAPPED, "{held} objects are held");
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

/// The daemon as it is shipped, with its server and its scrub.
struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _reaped = self.0.wait();
    }
}

fn idle(root: &Path, secs: u64) -> Result<Vec<Value>> {
    let mut idle = Vec::new();
    for (what, scrub) in [("without scrub", false), ("with scrub at 4 MiB/s", true)] {
        let config = root.join("../idle.toml");
        let listen = free_address()?;
        let text = format!(
            "listen = \"{listen}\"\ninterval_secs = {INTERVAL_SECS}\n[scrub]\nenabled = {scrub}\n[[stores]]\nname = \"bench\"\npath = \"{}\"\n",
            root.display()
        );
        std::fs::write(&config, text)?;
        let daemon = Command::new(env!("CARGO_BIN_EXE_tetris-node"))
            .args(["run", "--config"])
            .arg(&config)
            .stderr(Stdio::null())
            .spawn()?;
        let mut daemon = Daemon(daemon);
        // The first pass is no idle time.
        std::thread::sleep(Duration::from_secs(5));
        let pid = daemon.0.id();
        let before = cpu_seconds(pid)?;
        std::thread::sleep(Duration::from_secs(secs));
        let percent = (cpu_seconds(pid)? - before) / secs as f64 * 100.0;
        let resident = memory_mb(pid, "VmRSS:")?;
        let answers = poll(listen)?;
        // Pages are dropped after the next pass.
        std::thread::sleep(Duration::from_secs(INTERVAL_SECS + 5));
        let (now, peak) = (memory_mb(pid, "VmRSS:")?, memory_mb(pid, "VmHWM:")?);
        ensure!(daemon.0.try_wait()?.is_none(), "the daemon has ended");
        println!(
            "idle daemon over {secs} s, {what:<24} {percent:>6.3} % of a core, {resident:.1} MB resident, {now:.1} MB after a poll, {peak:.1} MB at most"
        );
        idle.push(json!({
            "name": what,
            "core_percent": percent,
            "resident_mb": resident,
            "resident_after_poll_mb": now,
            "peak_mb": peak,
            "answers": answers,
        }));
    }
    Ok(idle)
}

fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// Asks for the largest page, as the scaler does: made the first time, and kept the second.
fn poll(address: SocketAddr) -> Result<Vec<Value>> {
    let mut answers = Vec::new();
    for what in ["made", "kept"] {
        let begin = Instant::now();
        let mut stream = TcpStream::connect(address)?;
        write!(
            stream,
            "GET /inventory/objects HTTP/1.1\r\nHost: bench\r\nAccept-Encoding: gzip\r\n\r\n"
        )?;
        let bytes = std::io::copy(&mut stream, &mut std::io::sink())? as f64 / 1e6;
        let ms = begin.elapsed().as_secs_f64() * 1e3;
        println!("/inventory/objects, {what:<32} {ms:>7.1} ms, {bytes:.1} MB");
        answers.push(json!({"name": what, "ms": ms, "mb": bytes}));
    }
    Ok(answers)
}

fn cpu_seconds(pid: u32) -> Result<f64> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).context("the daemon has ended")?;
    let mut nanoseconds = 0.0;
    for task in tasks {
        // schedstat counts nanoseconds, stat only ticks of ten milliseconds.
        let text = std::fs::read_to_string(task?.path().join("schedstat"))?;
        let spent: f64 = text.split_whitespace().next().unwrap_or("0").parse()?;
        nanoseconds += spent;
    }
    Ok(nanoseconds / 1e9)
}

fn memory_mb(pid: u32, field: &str) -> Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find(|line| line.starts_with(field));
    let kib: f64 = line
        .and_then(|line| line.split_whitespace().nth(1)?.parse().ok())
        .context("no such field in /proc/pid/status")?;
    Ok(kib * 1024.0 / 1e6)
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
