//! Report of `reproduce-torpor` as tables.

use tetris_conventions::text_table::{TextTable, legend};
use tetris_scaler_simulator::gpu::torpor::{TorporReport, TorporRun};

use super::text::percent;

const HEADER: [&str; 9] = [
    "policy",
    "#exe-\ncuted",
    "#comp-\nliant",
    "#failed\n%",
    "#misses\n%",
    "#p98\nms",
    "#Bert\nms",
    "#service\nms",
    "#host\nGB",
];
/// Words of the tables.
const WORDS: [(&str, &str); 7] = [
    (
        "executed",
        "functions of which at least one request was executed",
    ),
    (
        "compliant",
        "functions with 98 % of their requests within the SLO",
    ),
    (
        "failed",
        "requests that were refused, late, or never executed",
    ),
    ("misses", "requests whose model was loaded"),
    (
        "p98, Bert",
        "98th percentile from arrival to result, of vision models and of Bert-qa",
    ),
    (
        "service",
        "98th percentile from dispatch to result, of vision models",
    ),
    ("host", "bytes copied from the host to GPUs"),
];

/// Returns the whole report.
pub fn report(report: &TorporReport) -> String {
    let grid = &report.grid;
    let mut parts = vec![format!(
        "Nodes of 4 GPUs with {} MB each for models, arrivals: {}, seed {}",
        grid.memory_mb,
        grid.arrivals.name(),
        grid.seed
    )];
    let of_one_setting = |one: &TorporRun, next: &TorporRun| {
        let setting = |run: &TorporRun| (run.experiment, run.case.clone(), run.functions);
        setting(one) == setting(next)
    };
    parts.extend(report.runs.chunk_by(of_one_setting).map(setting));
    parts.push(legend(WORDS));
    parts.join("\n\n")
}

/// Runs of one setting, a row for each policy.
fn setting(runs: &[TorporRun]) -> String {
    let mut table = TextTable::new(1, HEADER);
    for run in runs {
        let outcome = &run.outcome;
        let share = |part: u64| format!("{:.2}", percent(part, outcome.requests));
        let [vision, bert] = outcome.p98_us.map(milliseconds);
        table.add(vec![
            run.variant.name().to_owned(),
            outcome.executed.to_string(),
            outcome.compliant.to_string(),
            share(outcome.failed),
            share(outcome.misses),
            vision,
            bert,
            milliseconds(outcome.service_p98_us),
            format!("{:.1}", outcome.host_bytes as f64 / 1e9),
        ]);
    }
    let heading = runs.first().map_or_else(String::new, heading);
    format!("{heading}\n{}", table.format())
}

/// The paper's figure, or the varied assumption, with the number of functions.
fn heading(run: &TorporRun) -> String {
    let is_figure = run.experiment.starts_with(|c: char| c.is_ascii_digit());
    let figure = if is_figure { "Figure " } else { "" };
    let case = if run.case.is_empty() {
        String::new()
    } else {
        format!(", {}", run.case)
    };
    format!(
        "{figure}{}{case}: {} functions, {} s",
        run.experiment, run.functions, run.seconds
    )
}

/// Formats a time in milliseconds, with a decimal below a second.
fn milliseconds(us: u64) -> String {
    let ms = us as f64 / 1e3;
    let decimals = usize::from(us < 1_000_000);
    format!("{ms:.decimals$}")
}
