//! Report as a page.

use std::fmt::Write;

use tetris_scaler_simulator::catalog::PaperModel;
use tetris_scaler_simulator::{Comparison, PolicyRun, RunOutcome};
use tetris_simulation::TraceSource;
use tetris_simulation::page::{self, BarGroup, bars, key, over_time, table};

use super::text::{percent, setting, simulated};

const GB: f64 = 1e9;

/// Name and value of a quantity that is plotted for every policy.
type Measure = (&'static str, fn(&RunOutcome) -> f64);

const MEASURES: [Measure; 6] = [
    ("mean memory, GB", |entry| {
        entry.memory_bytes.mean as f64 / GB
    }),
    ("median memory, GB", |entry| {
        entry.memory_bytes.median as f64 / GB
    }),
    ("peak memory, GB", |entry| {
        entry.memory_bytes.peak as f64 / GB
    }),
    ("mean CPUs", |entry| entry.cpu_millis.mean as f64 / 1e3),
    ("requests beyond the objective, percent", |entry| {
        percent(entry.violations, entry.requests)
    }),
    ("cold starts", |entry| entry.cold_starts as f64),
];

/// Returns the whole page. Of outside texts it contains the path of a file only, which is escaped.
pub fn page(comparison: &Comparison) -> String {
    let grid = &comparison.grid;
    let lead = format!(
        "The four applications of the Tetris paper: {}. Simulated; latencies, objectives and traces are assumed, \
         see below.",
        page::escape(&setting(grid))
    );
    let mut body = format!("<section>{}</section>", legend(comparison));
    for kind in grid.sources() {
        let bars = MEASURES
            .iter()
            .map(|measure| plot(comparison, kind, measure));
        let lines = std::iter::once(memory_over_time(comparison, kind));
        let plots: String = bars.chain(lines).collect();
        body.push_str(&page::plots(&format!("{kind} requests"), &plots));
    }
    let tables = [
        ("Beside the paper", paper(comparison)),
        ("All runs", runs(comparison)),
        ("Models", models(&comparison.models)),
    ];
    for (heading, table) in tables {
        let _infallible = write!(body, "<section><h2>{heading}</h2>{table}</section>");
    }
    page::page(
        "Tetris scaling policies",
        "Scaling and placement",
        &lead,
        &body,
    )
}

fn plot(comparison: &Comparison, kind: TraceSource, (name, of): &Measure) -> String {
    let cells = comparison.grid.cells().into_iter();
    let groups: Vec<BarGroup> = cells
        .map(|(cell, _)| {
            let runs = comparison.runs.iter();
            let runs = runs.filter(|run| run.cell == cell && run.kind == kind);
            let bars = runs.map(|run| (run.policy.to_string(), of(&run.outcome)));
            (cell.to_owned(), bars.collect())
        })
        .collect();
    bars(name, &groups)
}

/// Plots the last cell: all applications together, if they ran together.
fn memory_over_time(comparison: &Comparison, kind: TraceSource) -> String {
    let last = comparison.grid.cells().pop();
    let cell = last.map_or("", |(cell, _)| cell);
    let runs = comparison.runs.iter();
    let runs = runs.filter(|run| run.cell == cell && run.kind == kind);
    let lines = runs.map(|run| {
        let series = &run.outcome.series;
        let gigabytes = series.memory_bytes.iter().map(|&bytes| bytes as f64 / GB);
        (
            run.policy.to_string(),
            series.first_s,
            series.step_s,
            gigabytes.collect(),
        )
    });
    let lines: Vec<_> = lines.collect();
    over_time(&format!("memory over time, GB, {cell}"), &lines)
}

fn legend(comparison: &Comparison) -> String {
    let policies = comparison.grid.policies.iter().enumerate();
    let rows =
        policies.map(|(index, policy)| vec![key(index, policy.name()), policy.about().to_owned()]);
    table(&["policy", ""], 2, rows)
}

fn paper(comparison: &Comparison) -> String {
    let rows = comparison.claims.iter().map(|checked| {
        let claim = checked.claim;
        vec![
            format!("{} against {}", claim.policy, claim.against),
            claim.application.name().to_owned(),
            claim.kind.map_or("all".to_owned(), |kind| kind.to_string()),
            claim.measure.name().to_owned(),
            claim.percent.to_string(),
            simulated(checked),
        ]
    });
    let heads = ["", "application", "requests", "less", "paper %", "here %"];
    table(&heads, 4, rows)
}

fn runs(comparison: &Comparison) -> String {
    let heads = [
        "",
        "requests",
        "policy",
        "mean GB",
        "median GB",
        "peak GB",
        "CPUs",
        "beyond objective %",
        "queue ms",
        "starts",
        "cold",
        "loaded GB",
        "decision us",
        "longest us",
    ];
    table(&heads, 3, comparison.runs.iter().map(cells))
}

fn cells(run: &PolicyRun) -> Vec<String> {
    let outcome = &run.outcome;
    let gb = |bytes: u64| format!("{:.1}", bytes as f64 / GB);
    vec![
        run.cell.to_owned(),
        run.kind.to_string(),
        run.policy.to_string(),
        gb(outcome.memory_bytes.mean),
        gb(outcome.memory_bytes.median),
        gb(outcome.memory_bytes.peak),
        format!("{:.0}", outcome.cpu_millis.mean as f64 / 1e3),
        format!("{:.2}", percent(outcome.violations, outcome.requests)),
        format!("{:.2}", outcome.queue.mean_us() as f64 / 1e3),
        outcome.starts.to_string(),
        outcome.cold_starts.to_string(),
        gb(outcome.loaded_bytes),
        outcome.decision_us.mean.to_string(),
        outcome.decision_us.peak.to_string(),
    ]
}

fn models(models: &[PaperModel]) -> String {
    let rows = models.iter().map(|model| {
        let source = if model.own_from_paper {
            "paper"
        } else {
            "assumed"
        };
        vec![
            model.name.to_owned(),
            format!("private memory: {source}; work and objective: assumed"),
            model.tensor_mb.to_string(),
            model.own_mb.to_string(),
            (model.work_us / 1_000).to_string(),
            (model.slo_us / 1_000).to_string(),
        ]
    });
    let heads = [
        "model",
        "source",
        "tensors MB",
        "own MB",
        "work ms",
        "objective ms",
    ];
    table(&heads, 2, rows)
}
