//! A directory for runs, and checks of its remains.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// Maximum wait for something that takes milliseconds; only a broken program reaches it.
const DEADLINE: Duration = Duration::from_secs(50);

/// An empty directory on a tmpfs.
pub struct Site(TempDir);

/// Result of a run.
#[derive(Debug)]
pub struct Run {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Site {
    pub fn new() -> Self {
        Self(tempfile::tempdir_in("/dev/shm").unwrap())
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Returns the command with its store in this directory.
    pub fn command(&self) -> Command {
        let mut command = bare();
        command.arg("--store-dir").arg(self.path());
        command
    }

    /// Returns the command on host memory with a small model, small chunks and few rounds.
    pub fn small(&self) -> Command {
        self.with_rounds(3)
    }

    /// Returns the same command with `rounds` rounds.
    pub fn with_rounds(&self, rounds: u32) -> Command {
        let mut command = self.command();
        command.args([
            "--simulated",
            "--bytes=16M",
            "--chunk-bytes=2M",
            "--transfer-bytes=8M",
        ]);
        command.args(["--processes=3", &format!("--rounds={rounds}")]);
        command
    }

    /// Files and directories in this directory.
    pub fn files(&self) -> Vec<PathBuf> {
        let files = fs::read_dir(self.path()).unwrap();
        files.map(|file| file.unwrap().path()).collect()
    }
}

/// The program: beside this one, where both were moved from their build folder (`tests/gpu
/// --pack`), or the one that cargo built for these tests.
fn program() -> PathBuf {
    let moved = std::env::current_exe().unwrap().with_file_name("gpu-bench");
    if moved.is_file() {
        return moved;
    }
    PathBuf::from(env!("CARGO_BIN_EXE_gpu-bench"))
}

/// Returns the command without arguments.
pub fn bare() -> Command {
    let mut command = Command::new(program());
    command.stdin(Stdio::null());
    command
}

pub fn run(command: &mut Command) -> Run {
    let output = command.output().unwrap();
    Run {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

impl Run {
    #[track_caller]
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:?}");
        self
    }

    /// Parses the one line of JSON.
    pub fn json(&self) -> Value {
        assert_eq!(self.stdout.lines().count(), 1, "{self:?}");
        serde_json::from_str(&self.stdout).unwrap()
    }
}

/// Live processes whose parent is `parent`.
pub fn children(parent: u32) -> Vec<u32> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    let ids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter(|id| parent_of(*id) == Some(parent)).collect()
}

/// Parent of a live process.
fn parent_of(id: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    (state != "Z").then_some(parent)
}

pub fn lives(id: u32) -> bool {
    parent_of(id).is_some()
}

/// Polls until a condition holds.
#[track_caller]
pub fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + DEADLINE;
    while !is_so() {
        assert!(Instant::now() < end, "expected that {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
