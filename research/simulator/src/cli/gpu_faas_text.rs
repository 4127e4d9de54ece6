//! Report of `reproduce-gpu-faas` as tables.

use tetris_conventions::text_table::{TextTable, legend, wrap};
use tetris_scaler_simulator::gpu::gpu_faas::{FaasFit, FaasReport, FaasRun};

/// Words of the tables.
const WORDS: [(&str, &str); 8] = [
    ("close", "yes within 5 points of the paper's change"),
    (
        "distance",
        "mean of the distances from the paper's changes, in points",
    ),
    ("set", "functions in the working set"),
    ("mean, variance", "latency of requests"),
    ("misses", "requests whose model was loaded"),
    (
        "false misses",
        "misses while another GPU had the model, of all misses",
    ),
    ("copies", "GPUs that had the most popular model, on average"),
    (
        "use",
        "time of all GPUs in inference, from the first arrival to the last result (figure 4c)",
    ),
];

/// Returns the whole report.
pub fn report(report: &FaasReport) -> String {
    let grid = &report.grid;
    let setting = format!(
        "12 GPUs of {} MB for models, {} requests in each of {} minutes, {} popularity, mean of {} seeds",
        grid.memory_mb,
        grid.per_minute,
        grid.minutes,
        grid.popularity.name(),
        grid.seeds
    );
    let mut parts = vec![wrap(&setting, 0), claims(report), fits(report)];
    for (heading, runs) in [
        ("The paper's setting", &report.runs),
        ("Limits of overtaking", &report.limits),
        ("Sweep of popularity and memory", &report.sweep),
    ] {
        let of_one_setting = |one: &FaasRun, next: &FaasRun| {
            (one.popularity, one.memory_mb) == (next.popularity, next.memory_mb)
        };
        let settings = runs.chunk_by(of_one_setting);
        parts.extend(settings.map(|runs| setting_of(heading, runs)));
    }
    parts.push(legend(WORDS));
    parts.join("\n\n")
}

/// Fit of each popularity and memory, the best one named.
fn fits(report: &FaasReport) -> String {
    let header = ["popularity", "#MB", "#close", "#distance"];
    let mut table = TextTable::new(1, header);
    for fit in &report.fits {
        table.add(vec![
            fit.popularity.name().to_owned(),
            fit.memory_mb.to_string(),
            format!("{} of {}", fit.close, fit.claims),
            hundredths(fit.mean_distance as f64),
        ]);
    }
    let best = FaasFit::best(&report.fits).map_or_else(String::new, |fit| {
        let name = fit.popularity.name();
        format!(": the best is {name} with {} MB", fit.memory_mb)
    });
    format!("Claims within 5 points{best}\n{}", table.format())
}

fn claims(report: &FaasReport) -> String {
    let mut table = TextTable::new(1, ["figure", "change", "#paper %", "#here %", "close"]);
    for claim in &report.claims {
        let [paper, here] = [claim.paper, claim.simulated];
        let close = if claim.is_close() { "yes" } else { "no" };
        table.add(vec![
            claim.figure.to_owned(),
            claim.name.clone(),
            hundredths(paper as f64),
            hundredths(here as f64),
            close.to_owned(),
        ]);
    }
    table.format()
}

/// Runs with one popularity and memory.
fn setting_of(heading: &str, runs: &[FaasRun]) -> String {
    let header = [
        "#set",
        "policy",
        "#mean\ns",
        "+variance\ns^2",
        "#misses\n%",
        "+false misses\n%",
        "#copies",
        "#use\n%",
    ];
    let mut table = TextTable::new(2, header);
    for run in runs {
        let outcome = &run.outcome;
        table.add(vec![
            run.working_set.to_string(),
            run.policy.clone(),
            format!("{:.3}", outcome.mean_latency_us as f64 / 1e6),
            format!("{:.3}", outcome.variance_ms2 as f64 / 1e6),
            hundredths(outcome.misses_per_10000 as f64),
            hundredths(outcome.false_misses_per_10000 as f64),
            format!("{:.2}", outcome.top_copies_milli as f64 / 1e3),
            hundredths(outcome.use_per_10000 as f64),
        ]);
    }
    let setting = runs.first().map_or_else(String::new, |run| {
        format!("{} popularity, {} MB", run.popularity.name(), run.memory_mb)
    });
    format!("{heading}: {setting}\n{}", table.format())
}

fn hundredths(value: f64) -> String {
    format!("{:.2}", value / 100.0)
}
