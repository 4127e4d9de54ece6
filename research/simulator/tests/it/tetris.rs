//! Tests of `reproduce-tetris` with short runs.

use std::collections::BTreeSet;
use std::process::{Command, Output};

use serde_json::Value;

const SHORT: [&str; 5] = ["reproduce-tetris", "--seconds", "60", "--format", "json"];

fn command(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_scaler-simulate"))
        .args(args)
        .output()
        .unwrap()
}

fn report(args: &[&str]) -> Value {
    let output = command(&[&SHORT[..], args].concat());
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}");
    assert_eq!(errors, "", "progress is for terminals");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn list<'a>(report: &'a Value, name: &str) -> &'a [Value] {
    report[name].as_array().unwrap()
}

fn keys(value: &Value) -> BTreeSet<&str> {
    value
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}

/// Number of met statements on a figure, and of all.
fn met(report: &Value, figure: &str) -> (usize, usize) {
    let claims = list(report, "claims").iter();
    let of_figure: Vec<&Value> = claims.filter(|claim| claim["figure"] == figure).collect();
    let met = of_figure
        .iter()
        .filter(|claim| claim["met"] == true)
        .count();
    (met, of_figure.len())
}

#[test]
fn the_reproduction_of_tetris_has_every_figure_and_all_models() {
    let report = report(&[]);
    has_the_documented_fields(&report);
    statements_without_requests_do_not_depend_on_the_length(&report);
    simulated_statements_keep_their_direction(&report);
    let models = ["models", "startups", "profilings"].map(|name| list(&report, name).len());
    assert_eq!(models, [21; 3]);
    let names = list(&report, "models")
        .iter()
        .map(|model| model["name"].as_str().unwrap());
    assert_eq!(names.collect::<BTreeSet<&str>>().len(), 21);
    for claim in list(&report, "claims") {
        let why = claim.get("why").and_then(Value::as_str);
        assert_eq!(
            why.is_some_and(|why| !why.is_empty()),
            claim["met"] == false,
            "{claim}"
        );
    }
    for run in list(&report, "runs") {
        assert_eq!(run["unplaced"], 0, "{run}");
    }
}

fn has_the_documented_fields(report: &Value) {
    let fields = [
        "alphas",
        "choices",
        "claims",
        "costs",
        "decisions",
        "grid",
        "loadings",
        "loads",
        "models",
        "profilings",
        "runs",
        "startups",
        "timely",
    ];
    assert_eq!(keys(report), fields.into());
    let first = |name: &str| &list(report, name)[0];
    let claim = [
        "basis", "figure", "here", "met", "name", "paper", "relation", "unit",
    ];
    assert_eq!(keys(first("claims")), claim.into());
    let run = [
        "alpha_bytes_per_millicore",
        "cell",
        "cold_starts",
        "cpu_millis",
        "decisions",
        "experiment",
        "headroom_percent",
        "instances",
        "kind",
        "late",
        "memory_bytes",
        "policy",
        "requests",
        "rps",
        "starts",
        "unplaced",
    ];
    assert_eq!(keys(first("runs")), run.into());
    let lengths = ["loads", "costs", "loadings"].map(|name| list(report, name).len());
    assert_eq!(lengths, [4 * 2 * 5, 6 * 2 * 2, 6]);
    // Ten alphas with zero, for ten functions and three policies.
    assert_eq!(list(report, "choices").len(), 10 * 10);
    assert_eq!(list(report, "alphas").len(), 10 * 3);
}

fn statements_without_requests_do_not_depend_on_the_length(report: &Value) {
    for (figure, expected) in [
        ("9a", (6, 7)),
        ("9b", (6, 6)),
        ("10", (6, 9)),
        ("11a", (2, 4)),
        ("11b", (2, 2)),
        ("14c", (1, 1)),
        ("14d", (0, 1)),
        ("14e", (2, 2)),
    ] {
        assert_eq!(met(report, figure), expected, "figure {figure}");
    }
    for (figure, statements) in [
        ("12", 5),
        ("13", 16 + 4 + 7 + 4),
        ("14a", 12 + 4),
        ("14b", 5),
    ] {
        assert_eq!(met(report, figure).1, statements, "figure {figure}");
    }
}

fn simulated_statements_keep_their_direction(report: &Value) {
    let here = |name: &str| {
        let mut claims = list(report, "claims")
            .iter()
            .filter(|claim| claim["name"] == name);
        claims.next().unwrap()["here"].as_i64().unwrap()
    };
    for application in ["SVT", "QA-Audio", "SS"] {
        for policy in ["INFless", "Photons"] {
            let name = format!("{application}, mean memory: DTS under {policy}");
            assert!(here(&name) > 1_000, "{name}");
        }
    }
    for row in list(report, "timely") {
        assert!(row["late"].as_i64().unwrap() < 400, "{row}");
    }
    let [none, best] = ["alpha 0", "the best alpha"]
        .map(|alpha| here(&format!("SS, CPU of DTS-RO under Photons, {alpha}")));
    assert!(none < 0 && best > 2_500, "{none} {best}");
    assert!(here("most of four applications: DTS, stable, loads from gateways") <= 400);
    let saved = here("memory saved for 100 requests/s: DTS under INFless");
    assert!((300..6_150).contains(&saved), "{saved}");
}

#[test]
fn all_but_the_durations_of_decisions_follows_from_the_seed() {
    let run = |seed: &str| {
        let mut report = report(&["--alphas", "3000000", "--seed", seed]);
        let decisions = report.as_object_mut().unwrap().remove("decisions");
        assert!(!decisions.unwrap().as_array().unwrap().is_empty());
        report
    };
    let first = run("1");
    assert_eq!(first, run("1"));
    assert_ne!(first["runs"], run("2")["runs"]);
}

#[test]
fn time_of_profiling_and_costs_of_cpu_are_options() {
    let report = report(&["--seconds-per-configuration", "0.5", "--alphas", "0,7,7"]);
    assert_eq!(report["grid"]["alphas"], serde_json::json!([0, 7]));
    let bit_m = &list(&report, "profilings")[0];
    assert_eq!(
        (&bit_m["configurations"], &bit_m["ms"]),
        (&60.into(), &30_000.into())
    );
    assert_eq!(met(&report, "14c"), (0, 1));
}

#[test]
fn wrong_options_are_named() {
    for (option, value) in [
        ("--seconds", "59"),
        ("--seconds", "often"),
        ("--seed", "-1"),
        ("--alphas", "1099511627777"),
        ("--alphas", "1,,2"),
        ("--seconds-per-configuration", "0"),
        ("--seconds-per-configuration", "-1"),
        ("--seconds-per-configuration", "NaN"),
        ("--seconds-per-configuration", "1e300"),
        ("--seconds-per-configuration", "soon"),
        ("--format", "xml"),
    ] {
        let output = command(&["reproduce-tetris", &format!("{option}={value}")]);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{option} {value}: {message}");
        assert!(message.contains(option), "{message}");
    }
    assert!(
        !command(&["--nodes", "9", "reproduce-tetris"])
            .status
            .success()
    );
}
