//! Report as one self-contained page: no scripts, no fonts, plots as inline SVG.

use std::fmt::Write;

use tetris_scaler_simulator::catalog::Model;
use tetris_scaler_simulator::trace::Kind;
use tetris_scaler_simulator::{Comparison, Outcome, Run};

use super::plot::{Group, bars, over_time};
use super::text::{percent, simulated};

const STYLE: &str = include_str!("style.css");
const GB: f64 = 1e9;

/// Name and value of a quantity that is plotted for every policy.
type Measure = (&'static str, fn(&Outcome) -> f64);

const MEASURES: [Measure; 6] = [
    ("mean memory, GB", |one| one.memory_bytes.mean as f64 / GB),
    ("median memory, GB", |one| {
        one.memory_bytes.median as f64 / GB
    }),
    ("peak memory, GB", |one| one.memory_bytes.peak as f64 / GB),
    ("mean CPUs", |one| one.cpu_millis.mean as f64 / 1e3),
    ("requests beyond the objective, percent", |one| {
        percent(one.violations, one.requests)
    }),
    ("cold starts", |one| one.cold_starts as f64),
];

/// Returns the whole page. It contains no outside text, so it needs no escaping.
pub fn page(comparison: &Comparison) -> String {
    let grid = &comparison.grid;
    let mut sections = String::new();
    for kind in &grid.kinds {
        let bars = MEASURES
            .iter()
            .map(|measure| plot(comparison, *kind, measure));
        let lines = std::iter::once(memory_over_time(comparison, *kind));
        let plots: String = bars.chain(lines).collect();
        let _infallible = write!(
            sections,
            "<section><h2>{kind} requests</h2><div class=\"plots\">{plots}</div></section>"
        );
    }
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <meta name=\"color-scheme\" content=\"light dark\">\
         <title>Tetris scaling policies</title><style>{STYLE}</style></head><body><main>\
         <header><h1>Scaling and placement</h1><p class=\"lead\">The four applications of the Tetris paper on \
         {nodes} nodes, {mean} on average for SVT and QA-Audio, 10 times that for SS and 25 times for QA-Text, for {seconds} s, seed {seed}. Simulated; latencies, objectives and \
         traces are assumed, see below.</p></header>\
         <section>{legend}</section>{sections}<section><h2>Beside the paper</h2>{paper}</section>\
         <section><h2>All runs</h2>{runs}</section><section><h2>Models</h2>{models}</section></main></body></html>\n",
        nodes = grid.nodes,
        mean = grid.mean,
        seconds = grid.seconds,
        seed = grid.seed,
        legend = legend(comparison),
        paper = paper(comparison),
        runs = runs(comparison),
        models = models(&comparison.models),
    )
}

fn plot(comparison: &Comparison, kind: Kind, (name, of): &Measure) -> String {
    let cells = comparison.grid.cells().into_iter();
    let groups: Vec<Group> = cells
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
fn memory_over_time(comparison: &Comparison, kind: Kind) -> String {
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
    let rows = policies.map(|(index, policy)| {
        vec![
            format!("<span class=\"key k{index}\"></span>{policy}"),
            policy.about().to_owned(),
        ]
    });
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
        "starts",
        "cold",
        "loaded GB",
        "decision us",
        "longest us",
    ];
    table(&heads, 3, comparison.runs.iter().map(cells))
}

fn cells(run: &Run) -> Vec<String> {
    let one = &run.outcome;
    let gb = |bytes: u64| format!("{:.1}", bytes as f64 / GB);
    vec![
        run.cell.to_owned(),
        run.kind.to_string(),
        run.policy.to_string(),
        gb(one.memory_bytes.mean),
        gb(one.memory_bytes.median),
        gb(one.memory_bytes.peak),
        format!("{:.0}", one.cpu_millis.mean as f64 / 1e3),
        format!("{:.2}", percent(one.violations, one.requests)),
        one.starts.to_string(),
        one.cold_starts.to_string(),
        gb(one.loaded_bytes),
        one.decision_us.mean.to_string(),
        one.decision_us.peak.to_string(),
    ]
}

fn models(models: &[Model]) -> String {
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

/// Formats a table with numbers in the columns from `numbers` on.
fn table(heads: &[&str], numbers: usize, rows: impl Iterator<Item = Vec<String>>) -> String {
    let class = |at: usize| {
        if at < numbers {
            ""
        } else {
            " class=\"number\""
        }
    };
    let mut text = String::from("<div class=\"scroll\"><table><thead><tr>");
    for (at, head) in heads.iter().enumerate() {
        let _infallible = write!(text, "<th{}>{head}</th>", class(at));
    }
    text.push_str("</tr></thead><tbody>");
    for row in rows {
        text.push_str("<tr>");
        for (at, cell) in row.iter().enumerate() {
            let _infallible = write!(text, "<td{}>{cell}</td>", class(at));
        }
        text.push_str("</tr>");
    }
    text.push_str("</tbody></table></div>");
    text
}
