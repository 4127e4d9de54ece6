//! A store, models and the command.

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use tetris_test_support::models::{Fixture, bytes, write_f32, write_model};

/// Longest wait for something that takes milliseconds; only a broken program takes it all.
const DEADLINE: Duration = Duration::from_secs(50);

/// A store with the command that works on it.
pub struct Site {
    pub fixture: Fixture,
}

/// The end of a run.
#[derive(Debug)]
pub struct Run {
    pub code: Option<i32>,
    pub signal: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// The command, with nothing of the tester's environment.
pub fn tetris() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tetris"));
    for name in [
        "TETRIS_STORE",
        "TETRIS_GPU_SOCKET",
        "TETRIS_LOG",
        "RUST_LOG",
        "NO_COLOR",
        "CLICOLOR_FORCE",
    ] {
        command.env_remove(name);
    }
    command
}

/// Paths of all files below a folder, relative to it.
pub fn walk(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.strip_prefix(folder).unwrap().to_owned();
        if path.is_dir() {
            files.extend(walk(&path).into_iter().map(|below| name.join(below)));
        } else {
            files.push(name);
        }
    }
    files.sort();
    files
}

/// Runs a command to its end.
pub fn run(command: &mut Command) -> Run {
    command.stdin(Stdio::null());
    Run::of(&command.output().unwrap())
}

impl Run {
    pub fn of(output: &Output) -> Self {
        Self {
            code: output.status.code(),
            signal: output.status.signal(),
            stdout: String::from_utf8(output.stdout.clone()).unwrap(),
            stderr: String::from_utf8(output.stderr.clone()).unwrap(),
        }
    }

    /// The one line of JSON.
    pub fn json(&self) -> Value {
        assert_eq!(self.stdout.lines().count(), 1, "{self:?}");
        let document = serde_json::from_str(&self.stdout).unwrap();
        tetris_test_support::json_schema::assert_fits(&document);
        document
    }

    #[track_caller]
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:?}");
        self
    }
}

impl Site {
    pub fn new() -> Self {
        Self {
            fixture: Fixture::new(),
        }
    }

    pub fn dir(&self) -> &Path {
        self.fixture.dir()
    }

    pub fn store_dir(&self) -> &Path {
        self.fixture.store_dir()
    }

    /// A file that is not safetensors.
    pub fn file(&self, name: &str, seed: u64) -> PathBuf {
        let path = self.dir().join(name);
        std::fs::write(&path, bytes(seed, 300_000)).unwrap();
        tetris_test_support::models::settle(&path);
        path
    }

    /// A folder with a model and other files.
    pub fn model_folder(&self) -> PathBuf {
        let folder = self.dir().join("model");
        std::fs::create_dir_all(folder.join("gguf")).unwrap();
        write_model(&folder.join("model.safetensors"), 1, None);
        write_f32(&folder.join("empty.safetensors"), &[]);
        std::fs::write(folder.join("config.json"), "{}").unwrap();
        std::fs::write(folder.join("gguf/model.gguf"), bytes(3, 9_000_001)).unwrap();
        folder
    }

    /// The command on this store.
    pub fn command<A: AsRef<std::ffi::OsStr>>(&self, args: &[A]) -> Command {
        let mut command = tetris();
        command.arg("--store").arg(self.store_dir()).args(args);
        command
    }

    pub fn run<A: AsRef<std::ffi::OsStr>>(&self, args: &[A]) -> Run {
        run(&mut self.command(args))
    }

    /// Runs it with `--format json`, expecting success.
    #[track_caller]
    pub fn json<A: AsRef<std::ffi::OsStr>>(&self, args: &[A]) -> Value {
        let run = run(self.command(args).args(["--format", "json"]));
        run.expect(0).json()
    }

    /// Runs it until the document is as expected, and returns that. Counts of holders need this: the
    /// kernel lists locks piece by piece, and other tests take and drop theirs meanwhile.
    #[track_caller]
    pub fn json_when(&self, args: &[&str], expected: impl Fn(&Value) -> bool) -> Value {
        let mut document = self.json(args);
        eventually("the document is as expected", || {
            let good = expected(&document);
            if !good {
                document = self.json(args);
            }
            good
        });
        document
    }

    /// Objects that someone holds.
    pub fn referenced(&self) -> u64 {
        self.json(&["stat"])["referenced_objects"].as_u64().unwrap()
    }

    pub fn load(&self, model: &Path) -> Value {
        self.json(&["load".as_ref(), model.as_os_str()])
    }

    /// The bytes in an object's file, changed behind the store's back.
    pub fn damage(path: &Path) {
        use std::fs::Permissions;
        use std::os::unix::fs::PermissionsExt;
        let mut bytes = std::fs::read(path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::set_permissions(path, Permissions::from_mode(0o644)).unwrap();
        std::fs::write(path, bytes).unwrap();
        std::fs::set_permissions(path, Permissions::from_mode(0o444)).unwrap();
    }
}

/// A program in the background that is killed at the end of the test.
pub struct Background {
    pub child: Child,
    stdout: BufReader<ChildStdout>,
}

impl Background {
    /// Starts it with pipes as stdin and stdout.
    pub fn start(command: &mut Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self { child, stdout }
    }

    /// Waits for a line of its output.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Closes its stdin and waits for its end.
    pub fn finish(&mut self) -> std::process::ExitStatus {
        drop(self.child.stdin.take());
        self.child.wait().unwrap()
    }

    pub fn signal(&self, signal: nix::sys::signal::Signal) {
        let pid = nix::unistd::Pid::from_raw(self.child.id().cast_signed());
        nix::sys::signal::kill(pid, signal).unwrap();
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Gives the reason a test, or the rest of it, does not run here.
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
pub fn skipped(reason: impl std::fmt::Display) {
    eprintln!("SKIPPED: {reason}");
}

/// Waits until something that another process does has happened.
#[track_caller]
pub fn eventually(what: &str, mut happened: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !happened() {
        assert!(begun.elapsed() < DEADLINE, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
