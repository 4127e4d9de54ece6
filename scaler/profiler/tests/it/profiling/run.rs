//! Runs of the profiler for tests.

#![expect(clippy::print_stdout, reason = "a test that is skipped says so")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tetris_scaler_profiler::ModelProfileManifest;

/// Returns the path of an example of this package, which cargo builds with its tests.
pub fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let built = test.parent().unwrap().parent().unwrap();
    let path = built.join("examples").join(name);
    assert!(
        path.exists(),
        "{} is not built; run `cargo build -p tetris-scaler-profiler --examples`",
        path.display()
    );
    path
}

/// A folder with the database and the list of starts of one test.
pub struct Case {
    dir: TempDir,
}

impl Case {
    pub fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Returns the command of the profiler with options `options` on a server with options
    /// `server`.
    pub fn command(&self, options: &[&str], server: &[&str]) -> Command {
        let mut command = Command::new(example("profile"));
        // Messages quote the end of a server's output: without a backtrace.
        command.env("RUST_BACKTRACE", "0");
        for (option, value) in [
            ("--requests", "40"),
            ("--seconds", "3"),
            ("--ready-seconds", "20"),
        ] {
            if !options.contains(&option) {
                command.args([option, value]);
            }
        }
        command
            .args(["--model", "m"])
            .arg("--database")
            .arg(self.path("p.redb"))
            .args(options)
            .arg("--")
            .arg(example("oip-server"))
            .args(["--port", "{port}", "--starts"])
            .arg(self.path("starts"))
            .args(server)
            .stdin(Stdio::null());
        command
    }

    pub fn run(&self, options: &[&str], server: &[&str]) -> Output {
        self.command(options, server).output().unwrap()
    }

    /// Returns the profile of a run that succeeds.
    pub fn profile(&self, options: &[&str], server: &[&str]) -> ModelProfileManifest {
        let all = [options, &["--format", "json"]].concat();
        let output = self.run(&all, server);
        assert!(output.status.success(), "{}", stderr(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Returns the started configurations, in order, with their processes.
    pub fn starts(&self) -> Vec<(String, u32)> {
        let text = std::fs::read_to_string(self.path("starts")).unwrap_or_default();
        let lines = text.lines().filter_map(|line| line.split_once(' '));
        lines
            .map(|(name, process)| (name.to_owned(), process.parse().unwrap()))
            .collect()
    }

    /// Returns true if configuration `name` was started.
    pub fn started(&self, name: &str) -> bool {
        self.starts().iter().any(|(start, _)| start == name)
    }

    /// Waits until every server has exited.
    pub fn assert_all_gone(&self) {
        for (name, process) in self.starts() {
            poll(&format!("the end of {name}, process {process}"), || {
                !is_server(process)
            });
        }
    }
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Polls until `is` returns true. The deadline is for a test that would fail anyway.
pub fn poll(what: &str, mut is: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_mins(2);
    while !is() {
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns true if the process is alive and a server of these tests: its number may be reused.
fn is_server(process: u32) -> bool {
    let command = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&command).contains("oip-server")
}

/// Returns true if the profiler can create cgroups here; prints that `test` is skipped if not.
pub fn cgroups_or_skip(test: &str) -> bool {
    let case = Case::new();
    let output = case.run(&["--cpus", "1", "--batch", "1", "--concurrency", "1"], &[]);
    let told = stderr(&output);
    let can = !told.contains("no cgroup can be created");
    if !can {
        println!("SKIPPED {test}: it needs the right to create cgroups. {told}");
    }
    can
}

/// Returns cgroups of the profiler, wherever they are.
pub fn cgroups_left(profiler: u32) -> Vec<PathBuf> {
    let mut left = Vec::new();
    find(Path::new("/sys/fs/cgroup"), 6, &mut |path| {
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if name.starts_with("tetris-profile-")
            && name.split('-').nth(3) == Some(&profiler.to_string())
        {
            left.push(path.to_owned());
        }
    });
    left
}

fn find(dir: &Path, depth: u32, found: &mut impl FnMut(&Path)) {
    if depth == 0 {
        return;
    }
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found(&entry.path());
            find(&entry.path(), depth - 1, found);
        }
    }
}
