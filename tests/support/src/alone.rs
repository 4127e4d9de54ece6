//! Tests that measure the process they run in.

use std::process::Command;

/// Set in the process of one test.
const ALONE: &str = "TETRIS_TEST_ALONE";

/// Runs the calling test again, in a process that runs no other test. Returns true in that
/// process, and false in the calling one, where nothing is left to do.
///
/// # Panics
///
/// If the test fails in its process.
pub fn alone() -> bool {
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let thread = std::thread::current();
    let test = thread
        .name()
        .expect("tests run in threads with their names");
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(ALONE, "1")
        .stderr(std::process::Stdio::inherit())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{test}, in a process of its own: {said}"
    );
    false
}
