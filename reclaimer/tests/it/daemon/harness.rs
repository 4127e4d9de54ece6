//! Stores, configurations, and the daemon as a process.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;
use tetris_agent::{Agent, LoadOptions, Model};
use tetris_store_layout::{CreateOptions, Store};

use tetris_test_support::settled::settle;
use tetris_test_support::skipped::skipped;

pub const EXE: &str = env!("CARGO_BIN_EXE_tetris-node");
const PATIENCE: Duration = Duration::from_mins(1);

/// Waits until something holds.
pub fn eventually<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A model file in a folder, of one tensor of `len` bytes, identified by its seed.
pub fn model_file(folder: &Path, len: usize, seed: u8) -> PathBuf {
    let path = folder.join(format!("{seed}-{len}.safetensors"));
    let header = format!(r#"{{"w":{{"dtype":"U8","shape":[{len}],"data_offsets":[0,{len}]}}}}"#);
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    bytes.extend((0..len).map(|n| (n % 251) as u8 ^ seed));
    std::fs::write(&path, bytes).unwrap();
    settle(&path);
    path
}

/// A directory with a store in it.
pub struct Place {
    dir: TempDir,
    mounted: bool,
}

impl Place {
    pub fn new() -> Self {
        Self {
            dir: tempfile::tempdir_in("/dev/shm").unwrap(),
            mounted: false,
        }
    }

    /// With a separate tmpfs of this size in bytes; `None` without the right to mount.
    pub fn of_size(bytes: u64) -> Option<Self> {
        let mut place = Self::new();
        let options = format!("size={bytes}");
        let source = Some("tetris-test");
        let dir = place.path("store");
        std::fs::create_dir(&dir).unwrap();
        let made = mount(
            source,
            &dir,
            Some("tmpfs"),
            MsFlags::empty(),
            Some(options.as_str()),
        );
        if made.is_err() {
            skipped("needs the right to mount a tmpfs");
            return None;
        }
        place.mounted = true;
        Some(place)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn store(&self) -> Store {
        Store::create(self.path("store"), &CreateOptions::default()).unwrap()
    }

    /// A configuration file with the store, and this before it.
    pub fn config(&self, text: &str) -> PathBuf {
        let path = self.path("node.toml");
        let store = self.path("store");
        let store = format!("[[stores]]\nname = \"a\"\npath = \"{}\"\n", store.display());
        std::fs::write(&path, format!("{text}\n{store}")).unwrap();
        path
    }

    /// A model file of one tensor of `len` bytes, identified by its seed.
    pub fn model_file(&self, len: usize, seed: u8) -> PathBuf {
        model_file(self.dir.path(), len, seed)
    }

    /// Publishes a model file, however small.
    pub fn load(&self, len: usize, seed: u8) -> Model {
        let agent = Agent::open_store(self.path("store")).unwrap();
        let options = LoadOptions::default().with_min_shared_bytes(0);
        let file = self.model_file(len, seed);
        agent.load_with(file, &options).unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.mounted {
            let _unmounted = umount2(&self.path("store"), MntFlags::MNT_DETACH);
        }
    }
}

/// Runs the command to its end.
pub fn command(args: &[&str], config: &Path) -> Output {
    let mut command = Command::new(EXE);
    command.args(args).arg("--config").arg(config);
    for name in ["TETRIS_LOG", "RUST_LOG", "NODE_NAME"] {
        command.env_remove(name);
    }
    command.output().unwrap()
}

/// The daemon. Killed when dropped.
pub struct Daemon {
    child: Child,
    log: Arc<Mutex<String>>,
}

impl Daemon {
    pub fn start(config: &Path, args: &[&str]) -> Self {
        Self::start_with(config, args, &[])
    }

    /// Starts it with these variables of the environment.
    pub fn start_with(config: &Path, args: &[&str], variables: &[(&str, &OsStr)]) -> Self {
        let mut command = Command::new(EXE);
        command.envs(variables.iter().copied());
        command.arg("run").arg("--config").arg(config).args(args);
        Self::started(command)
    }

    /// Starts another command of the daemon.
    pub fn started(mut command: Command) -> Self {
        command.args(["--log", "info,tetris_node=debug"]);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let log = Arc::new(Mutex::new(String::new()));
        let (lines, to) = (child.stderr.take().unwrap(), Arc::clone(&log));
        std::thread::spawn(move || {
            for line in BufReader::new(lines).lines().map_while(Result::ok) {
                *to.lock().unwrap() += &(line + "\n");
            }
        });
        Self { child, log }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// Waits for a line of its log.
    pub fn says(&self, what: &str) -> String {
        eventually(&format!("{what}\n{}", self.log()), || {
            let log = self.log();
            let line = log.lines().find(|line| line.contains(what));
            line.map(str::to_owned)
        })
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).unwrap();
    }

    /// Kills it as the kernel does a process that is out of memory.
    pub fn kill(mut self) {
        self.signal(Signal::SIGKILL);
        self.child.wait().unwrap();
    }

    pub fn stop(mut self) -> ExitStatus {
        self.signal(Signal::SIGTERM);
        eventually("the end of the daemon", || self.child.try_wait().unwrap())
    }

    /// Answer of the HTTP server, with its head.
    pub fn get(&self, path: &str) -> String {
        let line = self.says("address=");
        let address = line.split("address=").nth(1).unwrap().trim().to_owned();
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// The value of a series of its metrics.
    pub fn metric(&self, series: &str) -> f64 {
        let metrics = self.get("/metrics");
        let line = metrics.lines().find(|line| line.starts_with(series));
        let value = line.and_then(|line| line.rsplit(' ').next());
        value
            .unwrap_or_else(|| panic!("no {series} in {metrics}"))
            .parse()
            .unwrap()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}
