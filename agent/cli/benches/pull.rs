//! `tetris pull` from a server on this machine, beside `cp` into the same tmpfs and beside `curl`.
//!
//! `cargo bench -p tetris-cli --bench pull`; `-- --mib N` sets the size of the model (2,048), `-- --rounds N` the number of rounds
//! (5), `-- --json FILE` writes the results to a file too. Needs room for five copies of the model in memory. As root, what is
//! written goes to a tmpfs with 2 MiB pages, as `tetris init` mounts it; else to /dev/shm.
//!
//! Methods take turns. Throughput is per second of processor time, of the client alone: the server is in
//! another process. The targets are 0.8 of `cp`, 64 MiB of private memory, and for a fine-tune 1.02 times the
//! bytes that changed; the benchmark does not fail where one is missed.
#![expect(clippy::print_stdout, reason = "a benchmark prints its results")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use serde_json::{Value, json};
use tetris_agent::{Agent, LoadOptions, ManifestKind, Store, sidecar};
use tetris_test_support::model_site::ModelSite;
use tetris_test_support::models::{bytes, write_f32};

/// Argument by which the benchmark runs itself as the server.
const SERVE: &str = "--serve";
const MIB: usize = 1 << 20;
/// Bytes of a tensor.
const TENSOR: usize = 32 * MIB;

struct Options {
    mib: usize,
    rounds: usize,
    json: Option<String>,
}

/// Time and processor time of a program.
#[derive(Clone, Copy)]
struct Cost {
    wall: Duration,
    processor: Duration,
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, dir] = &args[..]
        && flag == SERVE
    {
        return serve(Path::new(dir));
    }
    let options = Options::parse(args);
    let dir = tempfile::tempdir_in("/dev/shm").expect("a folder in /dev/shm");
    let world = World::new(dir.path(), options.mib);
    let mut rounds = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..options.rounds {
        rounds[0].push(world.copied());
        rounds[1].push(world.pulled());
        rounds[2].push(world.curled());
    }
    let names = ["cp", "tetris pull", "curl"];
    println!(
        "{:<12} {:>9} {:>11} {:>16}",
        "", "time", "processor", "GB/s per core"
    );
    let mut methods = Vec::new();
    for (name, costs) in names.into_iter().zip(&mut rounds) {
        costs.sort_by_key(|cost| cost.processor);
        let cost = costs[costs.len() / 2];
        let rate = world.len as f64 / cost.processor.as_secs_f64() / 1e9;
        let (wall, processor) = (cost.wall.as_secs_f64(), cost.processor.as_secs_f64());
        println!("{name:<12} {wall:>7.2} s {processor:>9.2} s {rate:>16.2}");
        methods.push(json!({
            "method": name, "wall_s": wall, "processor_s": processor, "gb_per_core_s": rate,
        }));
    }
    let url = format!("{}/files/base.safetensors", world.url);
    world.pull(&url);
    let again = world.pull(&url);
    let tuned = world.pull("hf://org/tuned");
    let tuned_ratio = tuned["bytes_fetched"].as_f64().unwrap_or(0.0) / TENSOR as f64;
    let private = world.private_bytes();
    println!(
        "pulled again: {:.1} ms, {} requests, {} bytes",
        again["duration_s"].as_f64().unwrap_or(0.0) * 1e3,
        again["requests"],
        again["bytes_fetched"]
    );
    println!(
        "a fine-tune with one of {} tensors changed: {tuned_ratio:.3} of its bytes",
        world.tensors
    );
    println!(
        "private memory at most {:.1} MiB",
        private as f64 / MIB as f64
    );
    if let Some(path) = options.json {
        let report = json!({
            "bytes": world.len,
            "tensors": world.tensors,
            "rounds": options.rounds,
            "huge_pages": world.has_huge_pages,
            "methods": methods,
            "again": { "seconds": again["duration_s"], "requests": again["requests"], "bytes": again["bytes_fetched"] },
            "tuned": { "bytes_changed": TENSOR, "bytes_fetched": tuned["bytes_fetched"] },
            "private_bytes": private,
        });
        std::fs::write(&path, format!("{report:#}\n"))
            .unwrap_or_else(|error| panic!("cannot write `{path}`: {error}"));
    }
}

impl Options {
    fn parse(args: Vec<String>) -> Self {
        let mut options = Self {
            mib: 2048,
            rounds: 5,
            json: None,
        };
        let mut args = args.into_iter();
        while let Some(arg) = args.next() {
            let mut number = |or| args.next().and_then(|text| text.parse().ok()).unwrap_or(or);
            match arg.as_str() {
                "--mib" => options.mib = number(options.mib).max(64),
                "--rounds" => options.rounds = number(options.rounds).max(1),
                "--json" => options.json = args.next(),
                _ => {}
            }
        }
        options
    }
}

/// A server with a model and a fine-tune of it.
struct World {
    content: PathBuf,
    /// The tmpfs that is written to.
    memory: PathBuf,
    has_huge_pages: bool,
    len: u64,
    tensors: usize,
    server: Child,
    url: String,
}

impl World {
    fn new(dir: &Path, mib: usize) -> Self {
        let tensors = mib * MIB / TENSOR;
        let content = dir.join("content");
        std::fs::create_dir(&content).expect("a folder");
        let mut model: Vec<_> = (0..tensors)
            .map(|index| (format!("layer.{index:03}"), bytes(index as u64, TENSOR)))
            .collect();
        write_f32(&content.join("base.safetensors"), &model);
        model[0].1 = bytes(u64::MAX, TENSOR);
        let tuned = content.join("tuned.safetensors");
        write_f32(&tuned, &model);
        drop(model);
        let (agent, options) = (Agent::without_store(), LoadOptions::default());
        let manifests = agent.manifests(&tuned, ManifestKind::Safetensors, &options);
        let manifest = manifests.expect("a manifest").remove(0).1;
        sidecar::write(&tuned, &manifest).expect("a sidecar");
        let len = std::fs::metadata(&tuned).expect("the model").len();
        let server = Command::new(std::env::current_exe().expect("this program"))
            .arg(SERVE)
            .arg(&content)
            .stdout(Stdio::piped())
            .spawn();
        let mut server = server.expect("the server");
        let mut line = String::new();
        let stdout = server.stdout.take().expect("its output");
        std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line)
            .expect("its address");
        let memory = dir.join("memory");
        std::fs::create_dir(&memory).expect("a folder");
        let mount = ["-t", "tmpfs", "-o", "huge=within_size", "tetris-bench"];
        let mounted = Command::new("mount").args(mount).arg(&memory).output();
        let has_huge_pages = mounted.is_ok_and(|mounted| mounted.status.success());
        let store = memory.join("store");
        Store::create(&store, &tetris_agent::CreateOptions::default()).expect("a store");
        Self {
            content,
            memory,
            has_huge_pages,
            len,
            tensors,
            server,
            url: line.trim().to_owned(),
        }
    }

    fn copied(&self) -> Cost {
        let to = self.memory.join("copy");
        let from = self.content.join("base.safetensors");
        let cost = cost(Command::new("cp").arg(from).arg(&to));
        std::fs::remove_file(to).expect("the copy");
        cost
    }

    fn curled(&self) -> Cost {
        let to = self.memory.join("copy");
        let url = format!("{}/files/base.safetensors", self.url);
        let cost = cost(Command::new("curl").arg("-so").arg(&to).arg(url));
        std::fs::remove_file(to).expect("the copy");
        cost
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tetris"));
        command.arg("--store").arg(self.memory.join("store"));
        command
    }

    fn pulled(&self) -> Cost {
        let freed = self.command().args(["gc"]).output().expect("gc");
        assert!(freed.status.success(), "{freed:?}");
        let url = format!("{}/files/base.safetensors", self.url);
        cost(self.command().args(["pull", &url]))
    }

    /// The report of a pull.
    fn pull(&self, source: &str) -> Value {
        let mut command = self.command();
        let command = command
            .env("HF_ENDPOINT", &self.url)
            .env("HF_HOME", "/nowhere");
        let output = command.args(["pull", source, "--format", "json"]).output();
        let output = output.expect("a pull");
        assert!(output.status.success(), "{output:?}");
        let report: Value = serde_json::from_slice(&output.stdout).expect("its report");
        report["sources"][0].clone()
    }

    /// The most private memory of a pull in bytes, looked at each millisecond.
    fn private_bytes(&self) -> u64 {
        let freed = self.command().args(["gc"]).output().expect("gc");
        assert!(freed.status.success(), "{freed:?}");
        let url = format!("{}/files/base.safetensors", self.url);
        let mut pull = self.command();
        let pull = pull
            .args(["pull", &url])
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut pull = pull.spawn().expect("a pull");
        let status = format!("/proc/{}/status", pull.id());
        let mut most = 0;
        while pull.try_wait().expect("the pull").is_none() {
            let text = std::fs::read_to_string(&status).unwrap_or_default();
            let anonymous = text.lines().find_map(|line| line.strip_prefix("RssAnon:"));
            let kib = anonymous.and_then(|text| text.trim().strip_suffix(" kB")?.parse().ok());
            most = most.max(kib.unwrap_or(0u64) * 1024);
            std::thread::sleep(Duration::from_millis(1));
        }
        most
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ended = self.server.kill();
        let _ended = self.server.wait();
        if self.has_huge_pages {
            let _ended = Command::new("umount").arg(&self.memory).status();
        }
    }
}

/// Runs a program and returns its cost.
fn cost(command: &mut Command) -> Cost {
    let processor = || {
        let usage = getrusage(UsageWho::RUSAGE_CHILDREN).expect("usage");
        let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
        Duration::from_micros(micros.unsigned_abs())
    };
    let (before, begun) = (processor(), Instant::now());
    let output = command.output();
    let output = output.unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
    assert!(output.status.success(), "{output:?}");
    Cost {
        wall: begun.elapsed(),
        processor: processor().saturating_sub(before),
    }
}

/// Serves the files of a folder until the benchmark ends it.
fn serve(dir: &Path) {
    let site = ModelSite::new();
    for entry in std::fs::read_dir(dir).expect("the folder") {
        let path = entry.expect("a file").path();
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .expect("a name");
        let bytes = std::fs::read(&path).expect("a file");
        if name.starts_with("tuned") {
            site.put_in_repo("org/tuned", name, bytes);
        } else {
            site.put(name, bytes);
        }
    }
    println!("{}", site.url());
    loop {
        std::thread::park();
    }
}
