//! Report of `reproduce-tidal` as tables.

use tetris_conventions::text_table::{TextTable, legend, wrap};
use tetris_scaler_simulator::gpu::tidal::{
    STAGES, TidalOutcome, TidalReport, TidalRuns, TidalSystem,
};

/// Percentiles of the CDF that the table has.
const PERCENTILES: [usize; 8] = [10, 25, 50, 75, 90, 95, 99, 100];
/// Words of the tables.
const WORDS: [(&str, &str); 5] = [
    (
        "paper",
        "the paper's value, or the bound that ours must keep",
    ),
    (
        "timeouts",
        "requests that left before they got a GPU; they count with the time for which they waited",
    ),
    ("cold", "requests whose model was loaded"),
    ("busy", "share of the run for which GPUs were busy"),
    (
        "0 to 50 and so on",
        "mean TTFT from one percentile to the next, the stages of figure 19b",
    ),
];

/// Returns the whole report.
pub fn report(report: &TidalReport) -> String {
    let grid = &report.grid;
    let setting = format!(
        "16 functions on 8 GPUs, {} requests/min for {} s, seed {}",
        grid.per_minute, grid.seconds, grid.seed
    );
    let mut parts = vec![setting, claims(report)];
    parts.extend([
        distribution("19a", &report.short),
        distribution("19b", &report.long),
        sweep(&report.sweep),
        legend(WORDS),
    ]);
    parts.join("\n\n")
}

fn claims(report: &TidalReport) -> String {
    let mut table = TextTable::new(1, ["figure", "value", "#paper", "#here", "met"]);
    for claim in &report.claims {
        let paper = claim.paper.map_or_else(
            || format!("<= {:.2}", claim.bar.1 as f64 / 100.0),
            |value| format!("{:.2}", value as f64 / 100.0),
        );
        let met = if claim.is_met() { "yes" } else { "no" };
        table.add(vec![
            claim.figure.to_owned(),
            claim.name.clone(),
            paper,
            format!("{:.2}", claim.simulated as f64 / 100.0),
            met.to_owned(),
        ]);
    }
    table.format()
}

fn seconds(us: u64) -> String {
    format!("{:.2}", us as f64 / 1e6)
}

fn percent(part: u64, all: u64) -> f64 {
    part as f64 * 100.0 / all.max(1) as f64
}

/// Percentiles and stages, with a column for each system, in seconds.
fn distribution(figure: &str, runs: &TidalRuns) -> String {
    let systems = runs
        .runs
        .iter()
        .map(|run| format!("#{}", run.system.name()));
    let mut table = TextTable::new(1, [String::new()].into_iter().chain(systems));
    let mut line = |name: String, value: &dyn Fn(&TidalOutcome) -> String| {
        let values = runs.runs.iter().map(|run| value(&run.outcome));
        table.add([name].into_iter().chain(values).collect());
    };
    line("requests".to_owned(), &|entry| entry.requests.to_string());
    line("timeouts, %".to_owned(), &|entry| {
        format!("{:.2}", percent(entry.timeouts, entry.requests))
    });
    line("cold, %".to_owned(), &|entry| {
        format!("{:.1}", percent(entry.cold, entry.requests))
    });
    line("busy, %".to_owned(), &|entry| {
        format!("{:.1}", entry.busy_permille as f64 / 10.0)
    });
    line("mean, s".to_owned(), &|entry| seconds(entry.mean_us));
    for percent in PERCENTILES {
        let name = format!("p{percent}, s");
        line(name, &|entry| seconds(entry.percentile_us(percent)));
    }
    let mut from = 0;
    for (at, to) in STAGES.into_iter().enumerate() {
        line(format!("{from} to {to}, s"), &|entry| {
            entry
                .stages_us
                .get(at)
                .copied()
                .map_or_else(String::new, seconds)
        });
        from = to;
    }
    let heading = format!(
        "Figure {figure}, {}: time to the first token (TTFT)",
        runs.case
    );
    format!("{}\n{}", wrap(&heading, 0), table.format())
}

/// The 95th percentile in each case.
fn sweep(cases: &[TidalRuns]) -> String {
    let header = [
        "case",
        "#Server-\nlessLLM",
        "+Tidal",
        "+Tidal-DK",
        "+Tidal-\nDK-6G",
        "#change\n%",
        "+timeouts, %\nServerlessLLM",
        "+timeouts, %\nTidal",
    ];
    let mut table = TextTable::new(1, header);
    for runs in cases {
        let mut row = vec![runs.case.clone()];
        row.extend(TidalSystem::ALL.map(|system| {
            runs.find(system).map_or_else(
                || "-".to_owned(),
                |run| seconds(run.outcome.percentile_us(95)),
            )
        }));
        let change = runs.p95_change(TidalSystem::Tidal).unwrap_or(0);
        row.push(format!("{:.2}", change as f64 / 100.0));
        row.extend(
            [TidalSystem::ServerlessLlm, TidalSystem::Tidal].map(|system| {
                let outcome = runs.find(system).map(|run| &run.outcome);
                let share =
                    outcome.map_or(0.0, |outcome| percent(outcome.timeouts, outcome.requests));
                format!("{share:.2}")
            }),
        );
        table.add(row);
    }
    let heading = "Other assumptions: p95 in seconds, its change from ServerlessLLM to Tidal, and \
                   timeouts of both";
    format!("{}\n{}", wrap(heading, 0), table.format())
}
