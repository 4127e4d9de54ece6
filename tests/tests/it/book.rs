//! The book: links, generated pages and commands of docs/SUMMARY.md's chapters, by the tool tests/book.

use std::path::PathBuf;
use std::process::Command;

use tetris_tests::programs::folder_with;
use tetris_tests::skip;
use tetris_tests::skip::say;
use tetris_tests::sources::repository;

/// Runs the tool and panics with its messages unless it succeeds. What it left out is said.
fn tool(arguments: &[&str]) {
    let output = Command::new("python3")
        .arg("tests/book")
        .args(arguments)
        .current_dir(repository())
        .output()
        .expect("python3 cannot be run");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    for reason in told
        .lines()
        .filter_map(|line| line.strip_prefix("SKIPPED: "))
    {
        say(reason);
    }
}

/// Folder of the built programs, if all that pages name are there.
fn programs() -> Option<PathBuf> {
    folder_with(&[
        "tetris",
        "tetris-node",
        "tetris-scaler",
        "tetris-gateway",
        "tetris-webhook",
    ])
}

#[test]
fn the_tool_passes_its_own_tests() {
    let output = Command::new("python3")
        .args([
            "-m",
            "unittest",
            "discover",
            "--start-directory",
            "tests/book",
        ])
        .current_dir(repository())
        .output()
        .expect("python3 cannot be run");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && told.contains("OK"), "{told}");
    assert!(!told.contains("Ran 0 tests"), "{told}");
}

#[test]
fn links_of_all_pages_lead_somewhere() {
    tool(&["links"]);
}

#[test]
fn generated_pages_are_those_of_the_code() {
    tool(&["reference"]);
}

#[test]
fn commands_of_all_pages_have_options_that_there_are() {
    let Some(folder) = programs() else {
        skip!("the programs are not built: cargo build --workspace --bins");
    };
    tool(&["commands", "--programs", folder.to_str().unwrap()]);
}

#[test]
fn the_first_minutes_have_commands_to_run() {
    let output = Command::new("tests/first-minutes")
        .arg("--list")
        .current_dir(repository())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    let listed = String::from_utf8_lossy(&output.stdout);
    // What the system needs, both ways to install, and README's commands for one copy with and without PyTorch.
    for line in [
        "sudo apt install ",
        "python3 -m venv ",
        "pip install ./agent/python",
        "cargo install --locked --path agent",
        "  TETRIS_PATCH=1 python ",
        "  tetris exec --model ",
    ] {
        let count = listed
            .lines()
            .filter(|entry| entry.starts_with(line))
            .count();
        assert!(count > 0, "`{line}` is missing: {listed}");
    }
}

#[test]
fn commands_of_pages_run() {
    let Some(folder) = programs() else {
        skip!("the programs are not built: cargo build --workspace --bins");
    };
    tool(&["run", "--programs", folder.to_str().unwrap()]);
}
