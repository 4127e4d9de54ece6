//! Report of `reproduce-gpu-faas` as tables.

use std::fmt::Write as _;

use tetris_scaler_simulator::gpu::gpu_faas::{FaasReport, FaasRun};

/// Returns the whole report.
pub fn report(report: &FaasReport) -> String {
    let grid = &report.grid;
    let mut text = format!(
        "12 GPUs of {} MB for models, {} requests in each of {} minutes, {} popularity, mean of {} seeds\n\n",
        grid.memory_mb,
        grid.per_minute,
        grid.minutes,
        grid.popularity.name(),
        grid.seeds
    );
    let _infallible = writeln!(
        text,
        "{:<6} {:<62} {:>9} {:>9}  within 5 points",
        "figure", "change", "paper %", "here %"
    );
    for claim in &report.claims {
        let [paper, here] = [claim.paper, claim.simulated].map(|value| value as f64 / 100.0);
        let close = if claim.is_close() { "yes" } else { "no" };
        let _infallible = writeln!(
            text,
            "{:<6} {:<62} {paper:>9.2} {here:>9.2}  {close}",
            claim.figure, claim.name
        );
    }
    for (head, runs) in [
        ("The paper's setting", &report.runs),
        ("Limits of overtaking", &report.limits),
        ("Sweep of popularity and memory", &report.sweep),
    ] {
        let _infallible = writeln!(text, "\n{head}");
        let _infallible = writeln!(
            text,
            "{:>10} {:>8} {:>4}  {:<13} {:>12} {:>14} {:>10} {:>15} {:>11}",
            "popularity",
            "MB",
            "set",
            "policy",
            "mean s",
            "variance s^2",
            "misses %",
            "false misses %",
            "top copies"
        );
        for run in runs {
            text.push_str(&line(run));
        }
    }
    text
}

fn line(run: &FaasRun) -> String {
    let own = &run.outcome;
    format!(
        "{:>10} {:>8} {:>4}  {:<13} {:>12.3} {:>14.3} {:>10.2} {:>15.2} {:>11.2}\n",
        run.popularity.name(),
        run.memory_mb,
        run.working_set,
        run.policy,
        own.mean_latency_us as f64 / 1e6,
        own.variance_ms2 as f64 / 1e6,
        own.misses_per_10000 as f64 / 100.0,
        own.false_misses_per_10000 as f64 / 100.0,
        own.top_copies_milli as f64 / 1e3
    )
}
