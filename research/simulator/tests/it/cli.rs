//! Tests of the command `scaler-simulate`, with a short trace.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn simulate(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_scaler-simulate"))
        .args(["--seconds", "30", "--rps", "5"])
        .args(args)
        .output()
        .unwrap()
}

#[test]
fn the_tables_name_every_policy_and_what_is_assumed() {
    let output = simulate(&[]);
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    for name in [
        "INFless",
        "Photons",
        "DTS-RO",
        "private-copies",
        "page-cache",
        "exact",
        "sharing-aware",
        "QA-Audio",
        "assumed",
    ] {
        assert!(text.contains(name), "{name} is missing in {text}");
    }
    assert!(!text.contains("not run"), "{text}");
}

#[test]
fn json_has_every_run_and_claim() {
    let report: Value = serde_json::from_slice(&simulate(&["--format", "json"]).stdout).unwrap();
    let count = |name: &str| report[name].as_array().unwrap().len();
    assert_eq!((count("runs"), count("claims")), (5 * 3 * 9, 18));
    assert!(
        report["runs"][0]["outcome"]["memory_bytes"]["mean"]
            .as_u64()
            .unwrap()
            > 0
    );
    let series = &report["runs"][0]["outcome"]["series"];
    let lengths = ["memory_bytes", "cpu_millis"].map(|name| series[name].as_array().unwrap().len());
    assert_eq!((lengths, series["step_s"].as_u64()), ([4, 4], Some(5)));
    assert!(report["claims"][0]["simulated_permille"].is_i64());
}

#[test]
fn the_page_has_a_plot_for_each_kind_and_measure() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("simulate.html");
    assert!(
        simulate(&["--html", path.to_str().unwrap()])
            .status
            .success()
    );
    let page = std::fs::read_to_string(path).unwrap();
    assert_eq!(page.matches("<svg").count(), 3 * 7);
    assert_eq!(page.matches("<polyline").count(), 3 * 9);
    assert!(!page.contains("NaN") && !page.contains("inf\""), "{page}");
}

#[test]
fn wrong_arguments_are_named() {
    for (name, value, says) in [
        ("--nodes", "10001", "10001"),
        ("--kinds", "often", "stable, periodic, bursty"),
        ("--policies", "best", "sharing-aware"),
    ] {
        let output = simulate(&[name, value]);
        assert!(!output.status.success());
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(
            message.contains(name) && message.contains(says),
            "{message}"
        );
    }
}

#[test]
fn kinds_and_policies_can_be_chosen() {
    let output = simulate(&[
        "--kinds",
        "bursty",
        "--policies",
        "dts,Photons",
        "--copies",
        "0",
    ]);
    let text = String::from_utf8(output.stdout).unwrap();
    let (text, _) = text.split_once("Words of the tables").unwrap();
    let headings = text
        .lines()
        .filter(|line| line.contains("requests: memory"));
    assert!(headings.clone().all(|line| line.contains("bursty")));
    let rows = |policy: &str| {
        text.lines()
            .filter(|line| line.split_whitespace().next() == Some(policy))
            .count()
    };
    let applications = headings.count();
    // A table of resources and one of starts for each application.
    let counts = ["DTS", "Photons", "exact"].map(rows);
    assert_eq!((applications, counts), (4, [8, 8, 0]));
}
