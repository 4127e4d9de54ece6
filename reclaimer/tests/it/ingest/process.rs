//! The daemon and its client as their own processes, as in two containers.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tetris_agent::{Agent, LoadOptions, ManifestKind};

use crate::ingest::ground::{Ground, of_tensors, tensor};
use crate::ingest::harness::{Raw, eventually, open};
use crate::ingest::slow::Stuck;

const MIB: usize = 1 << 20;
const ROOT: &str = "TETRIS_TEST_PROCESS";
const FILE: &str = "TETRIS_TEST_FILE";
const SEED: &str = "TETRIS_TEST_SEED";
/// Tensors of a file, of 2 MiB each: enough to be met midway.
pub const TENSORS: u8 = 48;
pub const TENSOR_BYTES: usize = 2 * MIB;
/// Longest wait of a client for a message of the daemon. No test wants a client to give up, and in
/// an emulated machine beside others the default passes while nothing is wrong.
const CLIENT_WAIT: Duration = Duration::from_mins(5);
/// Number of loads of which one must be shared, where a daemon that works is there. On a machine
/// that hardly runs, the daemon's own deadlines pass.
const LOADS: usize = 3;

/// `tetris-node run`. Killed when dropped.
pub struct Daemon {
    child: Child,
    log: Arc<Mutex<String>>,
}

impl Daemon {
    fn start(ground: &Ground) -> Self {
        Self::start_in(ground, None, "")
    }

    /// With this in its configuration.
    pub fn configured(ground: &Ground, text: &str) -> Self {
        Self::start_in(ground, None, text)
    }

    /// In a cgroup, if one is given, with this in its configuration.
    pub fn start_in(ground: &Ground, cgroup: Option<&Path>, text: &str) -> Self {
        let config = ground.file("node.toml", text.as_bytes());
        let exe = Path::new(env!("CARGO_BIN_EXE_tetris-node"));
        let mut command = command_in(cgroup, exe);
        let store = format!("store={}", ground.store().display());
        command.args(["run", "--store", &store, "--listen", "127.0.0.1:0"]);
        command.arg("--config").arg(config);
        command.env_remove("RUST_LOG").env_remove("NODE_NAME");
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let log = Arc::new(Mutex::new(String::new()));
        let (lines, to) = (child.stderr.take().unwrap(), Arc::clone(&log));
        std::thread::spawn(move || {
            for line in BufReader::new(lines).lines().map_while(Result::ok) {
                *to.lock().unwrap() += &(line + "\n");
            }
        });
        eventually("the daemon listens", || {
            UnixStream::connect(ground.view().join("daemon")).is_ok()
        });
        Self { child, log }
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).unwrap();
    }

    fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    pub fn metric(&self, series: &str) -> f64 {
        let log = self.log.lock().unwrap().clone();
        let address = log.split("address=").nth(1).unwrap();
        let address = address.split_whitespace().next().unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let line = answer.lines().find(|line| line.starts_with(series));
        let line = line.unwrap_or_else(|| panic!("no {series} in {answer}"));
        line.rsplit(' ').next().unwrap().parse().unwrap()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// A command that runs in a cgroup from its first instruction on.
fn command_in(cgroup: Option<&Path>, exe: &Path) -> Command {
    let Some(cgroup) = cgroup else {
        return Command::new(exe);
    };
    let mut command = Command::new("sh");
    command.args(["-c", r#"echo $$ > "$0/cgroup.procs" && exec "$@""#]);
    command.arg(cgroup).arg(exe);
    command
}

pub fn model(ground: &Ground, seed: u8) -> String {
    let names: Vec<_> = (0..TENSORS).map(|n| format!("w{n}")).collect();
    let tensors = names.iter().zip(0..);
    let tensors: Vec<_> = tensors
        .map(|(name, n)| (name.as_str(), weights(n, seed)))
        .collect();
    let name = format!("{seed}.safetensors");
    ground.file(&name, &of_tensors(&tensors));
    name
}

fn weights(n: u8, seed: u8) -> Vec<u8> {
    let mut bytes = tensor(TENSOR_BYTES, seed);
    bytes[0] = n;
    bytes
}

/// End of a client's load.
#[derive(Debug, PartialEq)]
pub enum Loaded {
    /// From the store.
    Shared,
    /// Into private memory, for this reason.
    Private(String),
}

/// Starts a client. It checks all bytes by itself.
pub fn client(ground: &Ground, file: &str, seed: u8, cgroup: Option<&Path>) -> Child {
    command_in(cgroup, &std::env::current_exe().unwrap())
        .args([
            "--ignored",
            "--exact",
            "ingest::process::as_a_client",
            "--nocapture",
        ])
        .env(ROOT, ground.dir.path())
        .env(FILE, file)
        .env(SEED, seed.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

pub fn outcome(client: Child) -> Loaded {
    let output = client.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let line = text.lines().find_map(|line| line.split("LOADED ").nth(1));
    match line.unwrap().split_once(' ') {
        Some(("private", why)) => Loaded::Private(why.to_owned()),
        _ => Loaded::Shared,
    }
}

/// Loads a file by a process that must find it in the store in the end.
fn shared(ground: &Ground, file: &str, seed: u8) {
    let mut reasons = Vec::new();
    for _ in 0..LOADS {
        match outcome(client(ground, file, seed, None)) {
            Loaded::Shared => return,
            Loaded::Private(why) => reasons.push(why),
        }
    }
    panic!("not one of {LOADS} loads is shared: {reasons:?}");
}

#[test]
#[ignore = "run as a process of its own by the tests below"]
fn as_a_client() {
    let variable = |name| std::env::var(name).unwrap();
    let root = variable(ROOT);
    let view = Path::new(&root).join("view");
    let refused = std::fs::write(view.join("new"), "x").unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(Errno::EROFS as i32));
    let agent = Agent::open_store(&view).unwrap();
    assert!(!agent.store().unwrap().is_writable());
    let mut options = LoadOptions::default();
    options.broker_timeout = CLIENT_WAIT;
    let path = Path::new(&root).join(variable(FILE));
    let model = agent.load_with(path, &options).unwrap();
    let seed = variable(SEED).parse().unwrap();
    for n in 0..TENSORS {
        let loaded = model.tensor(&format!("w{n}")).unwrap();
        assert!(loaded.bytes() == weights(n, seed), "tensor {n}");
    }
    let report = model.report();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let of_store = view.join("objects-v1").display().to_string();
    let mapped = maps.lines().filter(|line| line.contains(&of_store)).count();
    if let Some(why) = &report.private_reason {
        println!("\nLOADED private {why}");
        return;
    }
    assert_eq!((report.bytes_private, report.bytes_read), (0, 0));
    assert!(mapped >= usize::from(TENSORS), "{mapped} mappings\n{maps}");
    println!("\nLOADED shared {:?}", report.recognized);
}

#[test]
fn a_client_process_publishes_nothing_and_maps_the_store() {
    let Some(ground) = Ground::new(256) else {
        return;
    };
    let mut daemon = Daemon::start(&ground);
    let file = model(&ground, 1);
    assert_eq!(outcome(client(&ground, &file, 1, None)), Loaded::Shared);
    assert_eq!(ground.objects(), usize::from(TENSORS));
    let published = |outcome: &str| {
        daemon.metric(&format!(
            "tetris_ingest_files_total{{store=\"store\",outcome=\"{outcome}\"}}"
        ))
    };
    assert!((published("published") - 1.0).abs() < f64::EPSILON);
    assert!(published("no-room").abs() < f64::EPSILON);
    daemon.signal(Signal::SIGTERM);
    eventually("the daemon ends", || daemon.has_ended());
    // What is in the store needs no daemon.
    assert_eq!(outcome(client(&ground, &file, 1, None)), Loaded::Shared);
    let unknown = model(&ground, 2);
    let Loaded::Private(why) = outcome(client(&ground, &unknown, 2, None)) else {
        panic!("nobody published it");
    };
    assert!(why.contains("no daemon"), "{why}");
}

#[test]
fn a_daemon_that_is_killed_midway_leaves_a_private_load_and_a_store_for_the_next_one() {
    let Some(ground) = Ground::new(2048) else {
        return;
    };
    // The kill may come too late: when all objects are in the store, if not the answer to the client.
    // Then another file is tried.
    for seed in 1..=10 {
        let before = ground.objects();
        let daemon = Daemon::start(&ground);
        let file = model(&ground, seed);
        let client_one = client(&ground, &file, seed, None);
        eventually("something is published", || ground.objects() > before);
        drop(daemon);
        let midway = ground.objects() - before < usize::from(TENSORS);
        let loaded = outcome(client_one);
        assert!(ground.is_sound(), "a partial object is visible");
        if !midway {
            continue;
        }
        let Loaded::Private(why) = loaded else {
            panic!("shared, with objects missing");
        };
        assert!(why.contains("did not publish"), "{why}");
        if why.contains("within") {
            // The client had given up before the daemon was killed.
            continue;
        }
        let next = Daemon::start(&ground);
        shared(&ground, &file, seed);
        assert_eq!(ground.objects() - before, usize::from(TENSORS));
        drop(next);
        return;
    }
    panic!("never met midway");
}

#[test]
fn a_file_that_cannot_be_read_does_not_hold_up_the_end_of_the_daemon() {
    let Some(ground) = Ground::new(256) else {
        return;
    };
    let mut daemon = Daemon::start(&ground);
    let file = model(&ground, 1);
    let path = ground.dir.path().join(&file);
    let Some(stuck) = Stuck::new(&path) else {
        return;
    };
    let mut raw = Raw::greeted(&ground.view());
    raw.pass(ManifestKind::Safetensors, &[open(&path).as_fd()]);
    let in_flight = "tetris_ingest_in_flight_files{store=\"store\"}";
    eventually("it is being read", || daemon.metric(in_flight) > 0.0);
    daemon.signal(Signal::SIGTERM);
    eventually("the daemon ends", || daemon.has_ended());
    drop(stuck);
    // The client is hung up on.
    raw.0.read_to_end(&mut Vec::new()).unwrap();
    assert_eq!(ground.objects(), 0);
}
