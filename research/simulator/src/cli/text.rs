//! Report as tables.

use tetris_conventions::text_table::{TextTable, entry, legend, wrap};
use tetris_scaler_simulator::catalog::MODELS;
use tetris_scaler_simulator::paper::{Checked, MOST_VIOLATIONS_PERCENT, SAVED_TENTHS_GB};
use tetris_scaler_simulator::{Comparison, Grid, Policy, PolicyRun};

const GB: f64 = 1e9;
/// Columns of the table of resources.
const RESOURCES: [&str; 7] = [
    "policy",
    "#memory GB\nmean",
    "+\nmedian",
    "+\npeak",
    "#CPUs\nmean",
    "+\npeak",
    "#late\n%",
];
/// Columns of the table of starts.
const STARTS: [&str; 9] = [
    "policy",
    "#queue\nms",
    "#fill\n%",
    "#starts",
    "#cold",
    "#loaded\nGB",
    "#no room",
    "#decision us\nmean",
    "+\nmost",
];
/// Meaning of the column `fill`.
pub const FILL: &str =
    "share of the places in batches that requests took, where a batch has more than one";
/// Words of the tables.
const WORDS: [(&str, &str); 8] = [
    (
        "memory, CPUs",
        "of the instances and their tensors, on all nodes together",
    ),
    (
        "late",
        "requests that took longer than the objectives of their functions, or were not served",
    ),
    ("queue", "mean wait of a request for a thread"),
    ("fill", FILL),
    ("starts", "instances that started"),
    ("cold", "starts that read weights from the disk"),
    (
        "no room",
        "instances for which no node had room, at each attempt",
    ),
    (
        "decision",
        "duration of a decision that starts instances; the only figure that does not follow from \
         the seed",
    ),
];

/// Returns the whole report.
pub fn report(comparison: &Comparison) -> String {
    let grid = &comparison.grid;
    let mut parts = vec![wrap(&setting(grid), 0)];
    for (cell, _) in grid.cells() {
        for kind in grid.sources() {
            let runs = comparison.runs.iter();
            let runs: Vec<&PolicyRun> = runs
                .filter(|run| run.cell == cell && run.kind == kind)
                .collect();
            let heading = format!("{cell}, {kind} requests");
            parts.push(format!(
                "{heading}: memory, CPUs and late requests\n{}",
                resources(&runs)
            ));
            parts.push(format!(
                "{heading}: queues, starts and decisions\n{}",
                starts(&runs)
            ));
        }
    }
    parts.push(legend(WORDS) + &policies(&grid.policies));
    if !grid.kinds.is_empty() {
        parts.push(paper(comparison));
    }
    parts.push(assumed());
    parts.join("\n\n")
}

/// Describes cluster, loads and trace.
pub fn setting(grid: &Grid) -> String {
    let models = &grid.assumptions.models;
    let recorded = grid.recorded.as_ref();
    let loads = match recorded.and_then(|loads| loads.rate) {
        Some(rate) => {
            format!("{rate} on average for all applications, in proportion to their functions'")
        }
        None => format!(
            "{} on average for SVT and QA-Audio, {} times that for SS and {} times for QA-Text",
            grid.mean, models.ss_load, models.qa_text_load
        ),
    };
    let file = recorded.map_or_else(String::new, |loads| {
        format!(". Requests come as those of {}", loads.sample.about())
    });
    format!(
        "{} nodes, {loads}, {} s, seed {}{file}",
        grid.nodes, grid.seconds, grid.seed
    )
}

fn resources(runs: &[&PolicyRun]) -> String {
    let mut table = TextTable::new(1, RESOURCES);
    for run in runs {
        let outcome = &run.outcome;
        let memory = outcome.memory_bytes;
        let [mean, median, peak] = [memory.mean, memory.median, memory.peak].map(gigabytes);
        let cpus = |millis: u64| format!("{:.0}", millis as f64 / 1e3);
        table.add(vec![
            run.policy.name().to_owned(),
            mean,
            median,
            peak,
            cpus(outcome.cpu_millis.mean),
            cpus(outcome.cpu_millis.peak),
            format!("{:.2}", percent(outcome.violations, outcome.requests)),
        ]);
    }
    table.format()
}

fn starts(runs: &[&PolicyRun]) -> String {
    let mut table = TextTable::new(1, STARTS);
    for run in runs {
        let outcome = &run.outcome;
        table.add(vec![
            run.policy.name().to_owned(),
            format!("{:.2}", outcome.queue.mean_us() as f64 / 1e3),
            format!("{:.1}", outcome.fill.permille() as f64 / 10.0),
            outcome.starts.to_string(),
            outcome.cold_starts.to_string(),
            gigabytes(outcome.loaded_bytes),
            outcome.unplaced.to_string(),
            outcome.decision_us.mean.to_string(),
            outcome.decision_us.peak.to_string(),
        ]);
    }
    table.format()
}

fn gigabytes(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / GB)
}

/// Returns `part` of `all`, in percent.
pub fn percent(part: u64, all: u64) -> f64 {
    part as f64 * 100.0 / all.max(1) as f64
}

fn paper(comparison: &Comparison) -> String {
    let header = [
        "policy",
        "against",
        "application",
        "requests",
        "less",
        "#paper %",
        "#here %",
    ];
    let mut table = TextTable::new(5, header);
    for checked in &comparison.claims {
        table.add(claim(checked).to_vec());
    }
    let savings = SAVED_TENTHS_GB.map(|(against, tenths)| saving(comparison, against, tenths));
    let late = format!(
        "Requests beyond the objective, DTS and INFless: paper below {MOST_VIOLATIONS_PERCENT} %, \
         here see above"
    );
    let lines = savings.into_iter().chain([late]).map(|line| wrap(&line, 2));
    format!(
        "Figures 12 to 14 in the paper's text, and here\n{}\n{}",
        table.format(),
        lines.collect::<Vec<_>>().join("\n")
    )
}

/// Formats the savings of figure 14b against one policy as a line.
fn saving(comparison: &Comparison, against: Policy, tenths: u64) -> String {
    let of_run = comparison.savings.iter();
    let savings = of_run.filter(|saving| saving.against == against);
    let mut texts: Vec<String> = savings
        .map(|saving| {
            let name = saving.application.map_or("all", |entry| entry.name());
            format!("{name} {:.1}", saving.bytes_per_100_rps as f64 / GB)
        })
        .collect();
    if texts.is_empty() {
        texts.push("not run".to_owned());
    }
    format!(
        "DTS against {against}: GB less per 100 requests/s, stable: paper {}, here {}",
        tenths as f64 / 10.0,
        texts.join(", ")
    )
}

/// Cells of a claim.
fn claim(checked: &Checked) -> [String; 7] {
    let claim = checked.claim;
    [
        claim.policy.to_string(),
        claim.against.to_string(),
        claim.application.name().to_owned(),
        claim.kind.map_or("all".to_owned(), |kind| kind.to_string()),
        claim.measure.name().to_owned(),
        claim.percent.to_string(),
        simulated(checked),
    ]
}

/// Formats the simulated value of a claim, in percent.
pub fn simulated(checked: &Checked) -> String {
    let permille = checked.simulated_permille;
    permille.map_or("not run".to_owned(), |permille| {
        format!("{:.1}", permille as f64 / 10.0)
    })
}

fn assumed() -> String {
    let about = "From the paper: applications, sizes of models (table 4), nodes (table 3), models \
                 without batching, B and P, speeds of loading, and private memory marked so. The \
                 operator's own defaults: interval, window, headroom, steady time and cost of CPU. \
                 The rest is assumed; --sweep varies it:";
    let header = [
        "model",
        "#tensors\nMB",
        "#private\nMB",
        "private\nfrom",
        "#work\nms",
        "#objective\nms",
        "batches",
    ];
    let mut table = TextTable::new(1, header);
    for model in MODELS {
        let (from, batches) = (
            if model.own_from_paper {
                "paper"
            } else {
                "assumed"
            },
            if model.batchable { "yes" } else { "no" },
        );
        table.add(vec![
            model.name.to_owned(),
            model.tensor_mb.to_string(),
            model.own_mb.to_string(),
            from.to_owned(),
            (model.work_us / 1_000).to_string(),
            (model.slo_us / 1_000).to_string(),
            batches.to_owned(),
        ]);
    }
    format!("{}\n{}\n", wrap(about, 0), table.format())
}

fn policies(policies: &[Policy]) -> String {
    let policies_listed = policies.iter();
    let entries = policies_listed.map(|policy| entry(policy.name(), policy.about()));
    format!("Policies:\n{}", entries.collect::<Vec<_>>().join("\n"))
}
