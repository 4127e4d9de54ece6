//! Report of a comparison of rules of dispatch as a table.

use std::fmt::Write as _;

use tetris_scaler_simulator::dispatch::{DispatchComparison, DispatchGrid, DispatchRun, Rule};

use super::text::percent;

/// Returns the whole report.
pub fn report(comparison: &DispatchComparison) -> String {
    let mut text = setting(&comparison.grid);
    text.push_str("\n\n");
    let [functions, instances, rule, others @ ..] = HEADS;
    let mut line = |cells: [&str; 3], others: &[String]| {
        let [functions, instances, rule] = cells;
        let _infallible = write!(text, "{functions:>9} {instances:>9}  {rule:<17}");
        for cell in others {
            let _infallible = write!(text, " {cell:>15}");
        }
        text.push('\n');
    };
    line([functions, instances, rule], &others.map(str::to_owned));
    for run in &comparison.runs {
        let [functions, instances] = [run.functions, run.instances].map(|count| count.to_string());
        let name = run.rule.name();
        line([&functions, &instances, name], &figures(comparison, run));
    }
    text.push('\n');
    for rule in Rule::ALL {
        let _infallible = writeln!(text, "{:<17} {}", rule.name(), rule.about());
    }
    text
}

/// Heads of the columns.
pub const HEADS: [&str; 9] = [
    "functions",
    "instances",
    "rule",
    "late",
    "against ours",
    "p50 ms",
    "p99 ms",
    "p99 of ours",
    "p99 of SLO",
];

/// Describes load and instances.
pub fn setting(grid: &DispatchGrid) -> String {
    format!(
        "{} requests by a Poisson process at {} % of the capacity of 4 to 8 unequal instances per function, seed {}",
        grid.requests, grid.load_percent, grid.seed
    )
}

/// Formats the figures of a run.
pub fn figures(comparison: &DispatchComparison, run: &DispatchRun) -> [String; 6] {
    let own = &run.outcome;
    let ours = comparison.ours(run).map(|one| one.outcome);
    let ours = ours.unwrap_or_default();
    let milliseconds = |us: u64| format!("{:.1}", us as f64 / 1e3);
    [
        format!("{:.3} %", percent(own.violations, own.requests)),
        ratio(own.violations, ours.violations),
        milliseconds(own.latency_us.p50),
        milliseconds(own.latency_us.p99),
        ratio(own.latency_us.p99, ours.latency_us.p99),
        format!("{:.0} %", own.of_slo_permille.p99 as f64 / 10.0),
    ]
}

fn ratio(value: u64, ours: u64) -> String {
    if ours == 0 {
        return "-".to_owned();
    }
    format!("{:.2}", value as f64 / ours as f64)
}
