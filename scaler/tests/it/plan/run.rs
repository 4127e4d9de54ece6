//! Runs of the command.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

pub const FUNCTIONS: &str = include_str!("files/functions.yaml");
pub const NODES: &str = include_str!("files/nodes.yaml");

/// Result of a run.
pub struct Run {
    pub status: i32,
    pub out: String,
    pub err: String,
}

/// Runs the command with files of these contents, and more arguments.
pub fn plan(files: &[&str], more: &[&str]) -> Run {
    let dir = TempDir::new().unwrap();
    for (at, text) in files.iter().enumerate() {
        fs::write(dir.path().join(format!("{at}.yaml")), text).unwrap();
    }
    plan_in(dir.path(), more)
}

pub fn plan_in(dir: &Path, more: &[&str]) -> Run {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tetris-scaler"));
    let ran = command
        .args(["plan", "-f"])
        .arg(dir)
        .args(more)
        .output()
        .unwrap();
    Run {
        status: ran.status.code().unwrap(),
        out: String::from_utf8(ran.stdout).unwrap(),
        err: String::from_utf8(ran.stderr).unwrap(),
    }
}

/// Returns the plan as JSON, with a load for `b`.
pub fn json(files: &[&str], more: &[&str]) -> Value {
    let more = [&["--load", "b=80", "--format", "json"], more].concat();
    let run = plan(files, &more);
    assert!(run.status < 2, "{}", run.err);
    serde_json::from_str(&run.out).unwrap()
}

/// Returns the functions with one part replaced.
pub fn functions_with(from: &str, to: &str) -> String {
    assert!(FUNCTIONS.contains(from), "{from}");
    FUNCTIONS.replace(from, to)
}
