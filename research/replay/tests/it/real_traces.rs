//! Requests from files: the made ones of the crate `simulation`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tetris_reclaimer_replay::compare::{CompareError, Grid, MAX_REQUESTS, candidates, compare};
use tetris_reclaimer_replay::trace::of_file;
use tetris_simulation::traces::{
    Limits, RecordedTrace, SampleRule, TraceFile, TraceSample, Window,
};

const RULE: SampleRule = SampleRule {
    functions: None,
    min_requests: 1,
};

fn made(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../simulation/tests/data")
        .join(name)
}

/// Reads nine minutes of a file.
fn read(name: &str) -> RecordedTrace {
    RecordedTrace::read(&made(name), Window::new(0, 540), &Limits::default()).unwrap()
}

fn sample(name: &str) -> TraceSample {
    read(name).sample(RULE, 70, 1).unwrap()
}

fn replay(name: &str, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_reclaimer-replay"))
        .args(["--hours", "1", "--seeds", "1", "--sizes-percent", "50"])
        .args(["--trace-minutes", "9", "--trace"])
        .arg(made(name))
        .args(args)
        .output()
        .unwrap()
}

fn text(output: Vec<u8>) -> String {
    String::from_utf8(output).unwrap()
}

#[test]
fn each_format_is_replayed_and_named() {
    for (name, label) in [
        ("azure-functions-2019.csv", "azure-functions-2019"),
        ("azure-functions-2021.csv", "azure-functions-2021"),
        ("burstgpt.csv", "burstgpt"),
    ] {
        let output = replay(name, &[]);
        assert!(output.status.success(), "{}", text(output.stderr));
        // Lines end where the path of the file lets them.
        let report = text(output.stdout);
        let report = report.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            report.contains(&format!("({label}), minutes 0 to 9, ")),
            "{report}"
        );
        assert!(
            !report.contains("stable") && report.contains("right default is"),
            "{report}"
        );
        let json = replay(name, &["--format", "json", "--trace-rate", "0.05"]);
        let report: Value = serde_json::from_slice(&json.stdout).unwrap();
        let runs = report["runs"].as_array().unwrap();
        assert_eq!(runs.len(), candidates().len());
        assert_eq!(
            (&runs[0]["kind"], &report["grid"]["file"]["format"]),
            (&label.into(), &label.into())
        );
        let requests = runs[0]["requests"].as_u64().unwrap();
        assert!(requests.abs_diff(180) <= 5, "{name}: {requests}");
    }
}

#[test]
fn the_page_shows_the_file() {
    let page = Path::new(env!("CARGO_TARGET_TMPDIR")).join("real.html");
    let output = replay("burstgpt.csv", &["--html", page.to_str().unwrap()]);
    assert!(output.status.success(), "{}", text(output.stderr));
    let page = std::fs::read_to_string(page).unwrap();
    assert_eq!(page.matches("<svg").count(), 3);
    assert!(page.contains("burstgpt requests") && page.contains("burstgpt.csv (burstgpt)"));
}

#[test]
fn functions_call_models_and_hold_them_for_their_durations() {
    // A stretched hour: an hour of the run is nine minutes of the file.
    let requests = of_file(&sample("azure-functions-2021.csv"), None, 70, 1, 1);
    assert!(requests.is_sorted());
    let holds: BTreeSet<u64> = requests.iter().map(|request| request.hold_ms).collect();
    assert_eq!(holds, BTreeSet::from([1, 250, 2_500, 30_000]));
    let models: BTreeSet<usize> = requests.iter().map(|request| request.model).collect();
    assert_eq!(models, BTreeSet::from([0, 1, 2, 3]));
    let mut rare = requests.iter().filter(|request| request.hold_ms == 1);
    // After 300 of 540 seconds.
    assert_eq!(rare.next().map(|request| request.at_ms), Some(2_000_000));
    // Two models: functions take turns.
    let shared = of_file(&sample("azure-functions-2021.csv"), None, 2, 1, 1);
    assert!(shared.iter().all(|request| request.model < 2) && shared.len() == requests.len());
}

#[test]
fn files_without_durations_have_the_generated_ones() {
    let requests = of_file(
        &sample("azure-functions-2019.csv"),
        Some(1_000_000),
        70,
        1,
        1,
    );
    let sum: u64 = requests.iter().map(|request| request.hold_ms).sum();
    let mean = sum / requests.len() as u64;
    // A minute on average; five standard deviations of 3600 requests.
    assert!((55_000..65_000).contains(&mean), "{mean}");
    assert!(requests.len().abs_diff(3_600) <= 5, "{}", requests.len());
}

#[test]
fn a_replay_follows_from_file_and_seed() {
    let name = "azure-functions-2019.csv";
    let requests = |seed| of_file(&sample(name), Some(100_000), 70, 1, seed);
    assert_eq!(requests(1), requests(1));
    assert_ne!(requests(1), requests(2));
}

#[test]
fn too_many_requests_and_too_few_functions_are_errors() {
    let grid = |rule, micro_rps| Grid {
        kinds: Vec::new(),
        file: Some(TraceFile {
            trace: read("burstgpt.csv"),
            rule,
            micro_rps,
        }),
        seeds: vec![1],
        ..Grid::default()
    };
    let error = compare(grid(RULE, Some(10_000_000_000))).unwrap_err();
    assert!(matches!(error, CompareError::Requests { expected } if expected > MAX_REQUESTS));
    let many = SampleRule {
        functions: Some(3),
        ..RULE
    };
    let error = compare(grid(many, None)).unwrap_err().to_string();
    assert!(error.contains("expected 3 or more functions"), "{error}");
    let short = replay("burstgpt.csv", &["--trace-start-minutes", "9"]);
    assert!(text(short.stderr).contains("minutes 9 to 18"));
    let missing = replay("missing.csv", &[]);
    assert!(text(missing.stderr).contains("missing.csv"));
}
