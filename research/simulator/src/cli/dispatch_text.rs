//! Report of a comparison of rules of dispatch as tables.

use tetris_conventions::text_table::{TextTable, entry, legend, wrap};
use tetris_scaler_simulator::dispatch::{DispatchComparison, DispatchGrid, DispatchRun, Rule};

use super::text::{FILL, percent};

const HEADER: [&str; 8] = [
    "rule",
    "#late",
    "+against\nours",
    "#p50\nms",
    "+p99\nms",
    "#p99 of\nours",
    "+p99 of\nSLO",
    "#fill\n%",
];
/// Words of the tables.
const WORDS: [(&str, &str); 4] = [
    ("late", "requests beyond their objective (SLO)"),
    (
        "against ours, p99 of ours",
        "late requests and 99th percentile as a multiple of the dispatcher's",
    ),
    (
        "p99 of SLO",
        "99th percentile of the latency as a share of the objective",
    ),
    ("fill", FILL),
];

/// Returns the whole report.
pub fn report(comparison: &DispatchComparison) -> String {
    let mut parts = vec![wrap(&setting(&comparison.grid), 0)];
    let of_one_case = |one: &DispatchRun, next: &DispatchRun| {
        (one.functions, one.instances) == (next.functions, next.instances)
    };
    let cases = comparison.runs.chunk_by(of_one_case);
    parts.extend(cases.map(|runs| case(comparison, runs)));
    let rules = Rule::ALL.map(|rule| entry(rule.name(), rule.about()));
    parts.push(format!("Rules:\n{}", rules.join("\n")));
    parts.push(legend(WORDS));
    parts.join("\n\n")
}

/// Runs with one number of functions and of instances.
fn case(comparison: &DispatchComparison, runs: &[DispatchRun]) -> String {
    let mut table = TextTable::new(1, HEADER);
    for run in runs {
        let name = [run.rule.name().to_owned()].into_iter();
        table.add(name.chain(figures(comparison, run)).collect());
    }
    let case = runs.first().map_or_else(String::new, |run| {
        format!("Functions: {}, instances: {}", run.functions, run.instances)
    });
    format!("{case}\n{}", table.format())
}

/// Heads of the columns of the page.
pub const HEADS: [&str; 10] = [
    "functions",
    "instances",
    "rule",
    "late",
    "against ours",
    "p50 ms",
    "p99 ms",
    "p99 of ours",
    "p99 of SLO",
    "fill",
];

/// Describes load and instances.
pub fn setting(grid: &DispatchGrid) -> String {
    format!(
        "{} requests by a Poisson process at {} % of the capacity of 4 to 8 unequal instances per function, seed {}",
        grid.requests, grid.load_percent, grid.seed
    )
}

/// Formats the figures of a run.
pub fn figures(comparison: &DispatchComparison, run: &DispatchRun) -> [String; 7] {
    let outcome = &run.outcome;
    let ours = comparison.ours(run).map(|comparison| comparison.outcome);
    let ours = ours.unwrap_or_default();
    let milliseconds = |us: u64| format!("{:.1}", us as f64 / 1e3);
    [
        format!("{:.3} %", percent(outcome.violations, outcome.requests)),
        ratio(outcome.violations, ours.violations),
        milliseconds(outcome.latency_us.p50),
        milliseconds(outcome.latency_us.p99),
        ratio(outcome.latency_us.p99, ours.latency_us.p99),
        format!("{:.0} %", outcome.of_slo_permille.p99 as f64 / 10.0),
        format!("{:.1}", outcome.fill.permille() as f64 / 10.0),
    ]
}

fn ratio(value: u64, ours: u64) -> String {
    if ours == 0 {
        return "-".to_owned();
    }
    format!("{:.2}", value as f64 / ours as f64)
}
