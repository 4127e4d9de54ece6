//! Requests from files: the made ones of the crate `simulation`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tetris_scaler_core::Rate;
use tetris_scaler_simulator::catalog::Application;
use tetris_scaler_simulator::{Grid, Policy, RecordedLoads, SimulationError, compare};
use tetris_simulation::traces::{Limits, RecordedTrace, SampleRule, Window};

const FILES: [(&str, &str); 3] = [
    ("azure-functions-2019.csv", "azure-functions-2019"),
    ("azure-functions-2021.csv", "azure-functions-2021"),
    ("burstgpt.csv", "burstgpt"),
];

fn made(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../simulation/tests/data")
        .join(name)
}

fn simulate(name: &str, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_scaler-simulate"))
        .args(["--seconds", "120", "--policies", "dts", "--trace"])
        .arg(made(name))
        .args(args)
        .output()
        .unwrap()
}

fn text(output: Vec<u8>) -> String {
    String::from_utf8(output).unwrap()
}

/// Grid of nine minutes of a file, without a warm-up.
fn grid(name: &str, seed: u64) -> Grid {
    let read = RecordedTrace::read(&made(name), Window::new(0, 540), &Limits::default());
    let rule = SampleRule {
        functions: None,
        min_requests: 2,
    };
    Grid {
        kinds: Vec::new(),
        recorded: Some(RecordedLoads {
            sample: read.unwrap().sample(rule, 4, seed).unwrap(),
            copies: 1,
            rate: None,
        }),
        policies: vec![Policy::Dts],
        mean: Rate::from_rps(2),
        seconds: 540,
        warm_up_s: 0,
        seed,
        ..Grid::default()
    }
}

/// Number of requests of each cell.
fn requests(grid: Grid) -> Vec<(&'static str, u64)> {
    let comparison = compare(grid, &mut || 0).unwrap();
    let runs = comparison.runs.iter();
    runs.map(|run| (run.cell, run.outcome.requests)).collect()
}

#[test]
fn each_format_runs_with_both_sources_of_loads() {
    for (name, label) in FILES {
        for loads in ["prometheus", "gateways"] {
            let output = simulate(name, &["--rps", "2", "--loads", loads]);
            assert!(output.status.success(), "{}", text(output.stderr));
            let report = text(output.stdout);
            assert!(
                report.contains(&format!("all, {label} requests: memory")),
                "{report}"
            );
            assert!(
                !report.contains("stable requests") && !report.contains("Figures 12"),
                "{report}"
            );
        }
        let output = simulate(name, &["--rps", "2", "--format", "json"]);
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["runs"][0]["kind"], label);
        assert_eq!(
            report["grid"]["recorded"]["sample"]["window"]["seconds"],
            120
        );
    }
}

#[test]
fn a_whole_file_can_be_compressed_and_swept() {
    let sweep = [
        "--trace-minutes",
        "9",
        "--sweep",
        "--random",
        "0",
        "--rps",
        "1",
        "--seconds",
        "20",
    ];
    let output = Command::new(env!("CARGO_BIN_EXE_scaler-simulate"))
        .args(["--policies", "dts", "--trace"])
        .arg(made("azure-functions-2021.csv"))
        .args(sweep)
        .output()
        .unwrap();
    // Lines end where the path of the file lets them.
    let report = text(output.stdout);
    let report = report.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(report.contains("1 kinds of requests") && report.contains("azure-functions-2021"));
    assert!(report.contains("minutes 0 to 9"), "{report}");
}

#[test]
fn the_page_has_the_path_with_its_markup_escaped() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (file, page) = (folder.join("<b>&.csv"), folder.join("real.html"));
    std::fs::copy(made("burstgpt.csv"), &file).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_scaler-simulate"))
        .args([
            "--seconds",
            "60",
            "--rps",
            "2",
            "--policies",
            "dts",
            "--trace",
        ])
        .arg(&file)
        .arg("--html")
        .arg(&page)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(output.stderr));
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("&lt;b&gt;&amp;.csv") && !page.contains("<b>&"));
    assert_eq!(page.matches("<svg").count(), 7);
}

#[test]
fn each_application_has_its_mean() {
    for (name, _) in FILES {
        let expected = [("SVT", 2_u64), ("QA-Audio", 2), ("SS", 6), ("QA-Text", 50)];
        let counted = requests(grid(name, 1));
        for ((cell, requests), (application, rps)) in counted.iter().zip(expected) {
            let expected = rps * 540;
            // Requests with times are scaled exactly; of minutes they come by chance, five standard deviations.
            let bound = if name.contains("2019") {
                5 * expected.isqrt()
            } else {
                1
            };
            assert_eq!(*cell, application);
            assert!(
                requests.abs_diff(expected) <= bound,
                "{name} {cell}: {requests} {expected}"
            );
        }
    }
}

#[test]
fn a_run_follows_from_file_and_seed() {
    for (name, _) in FILES {
        assert_eq!(requests(grid(name, 1)), requests(grid(name, 1)), "{name}");
    }
    let sample = |seed| {
        grid("azure-functions-2019.csv", seed)
            .recorded
            .unwrap()
            .sample
    };
    assert!((2..10).any(|seed| sample(1) != sample(seed)));
}

#[test]
fn an_asked_rate_is_that_of_all_applications_in_the_functions_proportions() {
    let mut grid = grid("azure-functions-2021.csv", 1);
    let loads = grid.recorded.as_mut().unwrap();
    loads.rate = Some(Rate::from_rps(3));
    let functions = loads.sample.functions().iter();
    let shares: Vec<u64> = functions.map(|function| function.requests()).collect();
    let sum: u64 = shares.iter().sum();
    let counted = requests(grid);
    for ((cell, requests), share) in counted.iter().zip(&shares) {
        let expected = 3 * 540 * share / sum;
        assert!(
            requests.abs_diff(expected) <= 2,
            "{cell}: {requests} {expected}"
        );
    }
    let (cell, all) = counted[4];
    assert!(cell == "all" && all.abs_diff(3 * 540) <= 4, "{all}");
}

#[test]
fn an_application_that_runs_by_itself_has_its_own_functions() {
    let grid = grid("burstgpt.csv", 1);
    // Two models for four applications: the first and the third share one, and the second and the fourth.
    let counted = requests(Grid {
        mean: Rate::from_rps(1),
        ..grid.clone()
    });
    assert_eq!(counted.len(), 5);
    let together = counted[4].1;
    let by_themselves: u64 = counted[..4].iter().map(|(_, requests)| requests).sum();
    assert!(
        together.abs_diff(by_themselves) <= 4,
        "{together} {by_themselves}"
    );
    assert_eq!(grid.cells()[1].1, [Application::QaAudio]);
}

#[test]
fn requests_too_fast_for_an_application_are_an_error() {
    let mut grid = grid("azure-functions-2019.csv", 1);
    let window = Window::new(0, 540);
    let read = RecordedTrace::read(
        &made("azure-functions-2019.csv"),
        window,
        &Limits::default(),
    );
    let rule = SampleRule {
        functions: Some(1),
        min_requests: 108,
    };
    let loads = grid.recorded.as_mut().unwrap();
    // The only such function has 12 requests a minute, and 13 in one: too many where 12 are the most.
    loads.sample = read.unwrap().sample(rule, 1, 1).unwrap();
    loads.rate = Some(Rate::from_rps(4 * 10_000));
    let error = compare(grid, &mut || 0).unwrap_err();
    assert!(
        matches!(error, SimulationError::TraceTooFast { .. }),
        "{error}"
    );
    let message = error.to_string();
    assert!(
        message.contains("10000 requests/s") && message.contains("--trace-min-requests"),
        "{message}"
    );
}

#[test]
fn wrong_arguments_and_files_are_named() {
    for (args, expected) in [
        (["--kinds", "stable"], "--kinds"),
        (["--trace-start-minutes", "100"], "minutes 100 to 102"),
        (
            ["--trace-functions", "100"],
            "expected 100 or more functions",
        ),
        (
            ["--trace-min-requests", "1000"],
            "at least 1000 requests, found 0",
        ),
        (["--trace-minutes", "0"], "--trace-minutes"),
        (["--trace-rate", "0"], "--trace-rate"),
        (["--trace-rate", "NaN"], "--trace-rate"),
    ] {
        let output = simulate("azure-functions-2019.csv", &args);
        let message = text(output.stderr);
        assert!(
            !output.status.success() && message.contains(expected),
            "{message}"
        );
    }
    let both = simulate("burstgpt.csv", &["--rps", "2", "--trace-rate", "2"]);
    assert!(text(both.stderr).contains("--trace-rate"));
    let missing = simulate("missing.csv", &[]);
    assert!(text(missing.stderr).contains("missing.csv"));
    let lonely = Command::new(env!("CARGO_BIN_EXE_scaler-simulate"))
        .args(["--trace-minutes", "5"])
        .output()
        .unwrap();
    assert!(text(lonely.stderr).contains("--trace <FILE>"));
}
