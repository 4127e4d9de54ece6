//! Tests of `scaler-simulate --sweep`, with short traces.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn sweep(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_scaler-simulate"))
        .args(["--sweep", "--seconds", "20", "--rps", "2", "--random", "2"])
        .args([
            "--kinds",
            "bursty",
            "--policies",
            "page-cache,DTS,sharing-aware",
        ])
        .args(args)
        .output()
        .unwrap()
}

#[test]
fn the_tables_have_every_input_and_every_policy() {
    let output = sweep(&[]);
    assert!(output.status.success());
    assert!(output.stderr.is_empty(), "progress is for terminals");
    let text = String::from_utf8(output.stdout).unwrap();
    for name in ["neighbors_permille", "(defaults)", "lead %", "page-cache"] {
        assert!(text.contains(name), "{name} is missing in {text}");
    }
}

#[test]
fn json_has_every_point_and_the_same_sweep_gives_the_same() {
    let output = sweep(&["--format", "json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let count = |name: &str| report[name].as_array().unwrap().len();
    // Of 25 inputs, some have their default at one end.
    assert_eq!((count("inputs"), count("points")), (25, count("runs")));
    assert!((45..=53).contains(&count("points")), "{}", count("points"));
    assert_eq!(count("wins"), 3 * 6);
    let runs = report["runs"].as_array().unwrap();
    for run in runs {
        let (results, none) = (&run["results"], &run["infeasible"]);
        let policies = results.as_array().unwrap().len() + none.as_array().unwrap().len();
        assert_eq!(policies, 3);
    }
    assert_eq!(sweep(&["--format", "json"]).stdout, output.stdout);
}

#[test]
fn the_page_has_a_plot_for_each_view_and_input() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sweep.html");
    assert!(sweep(&["--html", path.to_str().unwrap()]).status.success());
    let page = std::fs::read_to_string(path).unwrap();
    assert_eq!(page.matches("<svg").count(), 6 + 25);
    assert!(!page.contains("NaN") && !page.contains("inf\""), "{page}");
}

#[test]
fn a_sweep_needs_applications_and_combinations_need_a_sweep() {
    let output = sweep(&["--copies", "0"]);
    assert!(!output.status.success());
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(message.contains("--copies of 1 or more"), "{message}");
    let output = Command::new(env!("CARGO_BIN_EXE_scaler-simulate"))
        .args(["--random", "3"])
        .output()
        .unwrap();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(message.contains("--sweep"), "{message}");
}
