//! Tests of `scaler-simulate --dispatch` and of the rules that it compares.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tetris_scaler_simulator::dispatch::{DispatchComparison, DispatchGrid, Rule, compare_dispatch};

const FUNCTIONS: usize = 27;

fn comparison(seed: u64) -> DispatchComparison {
    let grid = DispatchGrid {
        functions: vec![FUNCTIONS],
        requests: 54_000,
        seed,
        ..DispatchGrid::default()
    };
    compare_dispatch(grid).unwrap()
}

fn late(comparison: &DispatchComparison, rule: Rule) -> u64 {
    let mut runs = comparison.runs.iter();
    let run = runs.find(|run| run.rule == rule).unwrap();
    run.outcome.violations
}

#[test]
fn the_dispatcher_has_at_most_half_of_the_late_requests_of_least_connections() {
    for seed in 1..=3 {
        let all = comparison(seed);
        let [turns, fewest, ours] = [Rule::RoundRobin, Rule::LeastConnections, Rule::Dispatcher]
            .map(|rule| late(&all, rule));
        assert!(ours * 2 <= fewest, "seed {seed}: {ours} {fewest}");
        assert!(ours * 5 <= turns, "seed {seed}: {ours} {turns}");
    }
}

#[test]
fn gateways_that_know_only_their_own_requests_are_still_better_than_least_connections() {
    for seed in 1..=3 {
        let all = comparison(seed);
        let [one, two, four, fewest] = [
            Rule::Dispatcher,
            Rule::TwoDispatchers,
            Rule::FourDispatchers,
            Rule::LeastConnections,
        ]
        .map(|rule| late(&all, rule));
        assert!(
            one < two && two < four && four < fewest,
            "seed {seed}: {one} {two} {four} {fewest}"
        );
    }
}

#[test]
fn every_rule_serves_the_same_requests_and_the_result_follows_from_the_seed() {
    let all = comparison(4);
    assert_eq!(all.runs.len(), Rule::ALL.len());
    let per_function = 54_000 / FUNCTIONS as u64;
    let counted = (per_function - per_function / 10) * FUNCTIONS as u64;
    for run in &all.runs {
        assert_eq!(run.outcome.requests, counted, "{}", run.rule);
    }
    assert_eq!(all, comparison(4));
    assert_ne!(all.runs, comparison(5).runs);
}

fn dispatch(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_scaler-simulate"))
        .args(["--dispatch", "--requests", "4000"])
        .args(args)
        .output()
        .unwrap()
}

#[test]
fn the_table_the_page_and_json_have_every_rule() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("dispatch.html");
    let output = dispatch(&["--html", path.to_str().unwrap()]);
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let page = std::fs::read_to_string(path).unwrap();
    for rule in Rule::ALL {
        assert!(
            text.contains(rule.name()) && page.contains(rule.name()),
            "{rule}"
        );
    }
    assert!(!page.contains("NaN") && page.matches("<svg").count() == 1);
    let report: Value = serde_json::from_slice(&dispatch(&["--format", "json"]).stdout).unwrap();
    let runs = report["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 2 * Rule::ALL.len());
    assert_eq!(report["grid"]["load_percent"], 85);
    assert!(runs[0]["outcome"]["latency_us"]["p99"].as_u64().unwrap() > 0);
}

#[test]
fn a_comparison_of_rules_has_its_own_arguments() {
    let cases: [(&[&str], &str); 3] = [
        (&["--dispatch", "--policies", "dts"], "--policies"),
        (&["--load-percent", "50", "--sweep"], "--sweep"),
        (&["--requests", "5000", "--seed", "2"], "--dispatch"),
    ];
    for (args, says) in cases {
        let output = Command::new(env!("CARGO_BIN_EXE_scaler-simulate"))
            .args(args)
            .output()
            .unwrap();
        assert!(!output.status.success());
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(message.contains(says), "{message}");
    }
}

#[test]
fn a_load_of_nothing_is_refused_by_name() {
    let grid = DispatchGrid {
        load_percent: 0,
        ..DispatchGrid::default()
    };
    let error = compare_dispatch(grid).unwrap_err();
    assert!(error.to_string().contains("load_percent"), "{error}");
}
