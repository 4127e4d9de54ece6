//! The command `reclaimer-replay`, with a short trace.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn replay(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_reclaimer-replay"))
        .args(["--hours", "1", "--seeds", "1", "--sizes-percent", "50"])
        .args(args)
        .output()
        .unwrap()
}

#[test]
fn the_table_names_every_policy_and_the_right_default() {
    let output = replay(&[]);
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    for name in ["no-cache", "keep-alive", "lru", "greedy-dual"] {
        assert!(text.contains(name), "{text}");
    }
    assert!(text.contains("The right default is "), "{text}");
}

#[test]
fn json_has_every_run() {
    let report: Value = serde_json::from_slice(&replay(&["--format", "json"]).stdout).unwrap();
    let count = |name: &str| report[name].as_array().unwrap().len();
    assert_eq!(count("runs"), 3 * count("candidates"));
    assert!(report["runs"][0]["reload_secs"].is_f64());
    assert!(report["winner"].is_string());
}

#[test]
fn the_page_has_a_plot_for_each_kind_and_measure() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("replay.html");
    assert!(replay(&["--html", path.to_str().unwrap()]).status.success());
    let page = std::fs::read_to_string(path).unwrap();
    assert_eq!(page.matches("<svg").count(), 9);
    assert!(!page.contains("NaN") && !page.contains("inf"), "{page}");
}

#[test]
fn wrong_arguments_are_named() {
    let output = replay(&["--hours", "0"]);
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("--hours"));
}
