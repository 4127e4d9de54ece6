//! Report of `reproduce-tidal` as tables.

use std::fmt::Write as _;

use tetris_scaler_simulator::gpu::tidal::{STAGES, TidalReport, TidalRuns, TidalSystem};

/// Percentiles of the CDF that the table has.
const PERCENTILES: [usize; 8] = [10, 25, 50, 75, 90, 95, 99, 100];

/// Returns the whole report.
pub fn report(report: &TidalReport) -> String {
    let grid = &report.grid;
    let mut text = format!(
        "16 functions on 8 GPUs, {} requests/min for {} s, seed {}\n\n",
        grid.per_minute, grid.seconds, grid.seed
    );
    let _infallible = writeln!(
        text,
        "{:<6} {:<72} {:>9} {:>9}  met",
        "figure", "value", "paper", "here"
    );
    for claim in &report.claims {
        let paper = claim.paper.map_or_else(
            || format!("<= {:.2}", claim.bar.1 as f64 / 100.0),
            |value| format!("{:.2}", value as f64 / 100.0),
        );
        let met = if claim.is_met() { "yes" } else { "no" };
        let _infallible = writeln!(
            text,
            "{:<6} {:<72} {paper:>9} {:>9.2}  {met}",
            claim.figure,
            claim.name,
            claim.simulated as f64 / 100.0
        );
    }
    text.push_str(&distribution("19a", &report.short));
    text.push_str(&distribution("19b", &report.long));
    text.push_str(&sweep(&report.sweep));
    text
}

fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

/// Percentiles and stages of each system, in seconds.
fn distribution(figure: &str, runs: &TidalRuns) -> String {
    let mut text = format!("\nFigure {figure}, {}: TTFT in seconds\n", runs.case);
    let _infallible = write!(
        text,
        "{:<14} {:>8} {:>9} {:>6} {:>6} {:>7}",
        "system", "requests", "timeout %", "cold %", "busy %", "mean"
    );
    for percent in PERCENTILES {
        let _infallible = write!(text, " {:>7}", format!("p{percent}"));
    }
    let mut from = 0;
    for to in STAGES {
        let _infallible = write!(text, " {:>7}", format!("{from}-{to}"));
        from = to;
    }
    text.push('\n');
    for run in &runs.runs {
        let own = &run.outcome;
        let percent = |part: u64| part as f64 * 100.0 / own.requests.max(1) as f64;
        let _infallible = write!(
            text,
            "{:<14} {:>8} {:>9.2} {:>6.1} {:>6.1} {:>7.2}",
            run.system.name(),
            own.requests,
            percent(own.timeouts),
            percent(own.cold),
            own.busy_permille as f64 / 10.0,
            seconds(own.mean_us)
        );
        let percentiles = PERCENTILES.map(|percent| own.percentile_us(percent));
        for us in percentiles.into_iter().chain(own.stages_us) {
            let _infallible = write!(text, " {:>7.2}", seconds(us));
        }
        text.push('\n');
    }
    text
}

/// The 95th percentile in each case.
fn sweep(cases: &[TidalRuns]) -> String {
    let mut text = "\nOther assumptions: p95 in seconds, its change against ServerlessLLM, and timeouts of ServerlessLLM and Tidal\n".to_owned();
    let _infallible = write!(text, "{:<38}", "case");
    for system in TidalSystem::ALL {
        let _infallible = write!(text, " {:>13}", system.name());
    }
    let _infallible = writeln!(text, " {:>9} {:>15}", "Tidal %", "timeouts %");
    for runs in cases {
        let _infallible = write!(text, "{:<38}", runs.case);
        for system in TidalSystem::ALL {
            let shown = runs.find(system).map_or_else(
                || "-".to_owned(),
                |run| format!("{:.2}", seconds(run.outcome.percentile_us(95))),
            );
            let _infallible = write!(text, " {shown:>13}");
        }
        let change = runs.p95_change(TidalSystem::Tidal).unwrap_or(0);
        let timeouts = [TidalSystem::ServerlessLlm, TidalSystem::Tidal].map(|system| {
            let own = runs.find(system).map(|run| &run.outcome);
            own.map_or(0.0, |own| {
                own.timeouts as f64 * 100.0 / own.requests.max(1) as f64
            })
        });
        let [one, other] = timeouts;
        let _infallible = writeln!(
            text,
            " {:>9.2} {:>7.2} {:>7.2}",
            change as f64 / 100.0,
            one,
            other
        );
    }
    text
}
