//! Report of `reproduce-torpor` as a table.

use std::fmt::Write as _;

use tetris_scaler_simulator::gpu::torpor::TorporReport;

/// Returns the whole report.
pub fn report(report: &TorporReport) -> String {
    let grid = &report.grid;
    let mut text = format!(
        "Nodes of 4 GPUs with {} MB each for models, {} s, seed {}\n\n",
        grid.memory_mb, grid.seconds, grid.seed
    );
    let _infallible = writeln!(
        text,
        "{:<9} {:<28} {:>9}  {:<14} {:>8} {:>9} {:>9} {:>8} {:>9} {:>9} {:>11} {:>11}",
        "figure",
        "case",
        "functions",
        "policy",
        "executed",
        "compliant",
        "failed %",
        "misses %",
        "p98 ms",
        "Bert ms",
        "service ms",
        "host GB"
    );
    for run in &report.runs {
        let own = &run.outcome;
        let percent = |part: u64| part as f64 * 100.0 / own.requests.max(1) as f64;
        let [vision, bert] = own.p98_us.map(|us| us as f64 / 1e3);
        let _infallible = writeln!(
            text,
            "{:<9} {:<28} {:>9}  {:<14} {:>8} {:>9} {:>9.2} {:>8.2} {vision:>9.1} {bert:>9.1} {:>11.1} {:>11.1}",
            run.experiment,
            run.case,
            run.functions,
            run.variant.name(),
            own.executed,
            own.compliant,
            percent(own.failed),
            percent(own.misses),
            own.service_p98_us as f64 / 1e3,
            own.host_bytes as f64 / 1e9
        );
    }
    text
}
