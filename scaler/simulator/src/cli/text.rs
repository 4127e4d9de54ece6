//! Report as tables.

use std::fmt::Write;

use tetris_scaler_simulator::catalog::MODELS;
use tetris_scaler_simulator::paper::{Checked, MOST_VIOLATIONS_PERCENT, SAVED_TENTHS_GB};
use tetris_scaler_simulator::{Comparison, Grid, Policy, PolicyRun};

const GB: f64 = 1e9;

/// Returns the whole report.
pub fn report(comparison: &Comparison) -> String {
    let grid = &comparison.grid;
    let mut text = format!("{}\n\n{}\n", setting(grid), header());
    for (cell, _) in grid.cells() {
        for kind in &grid.kinds {
            let runs = comparison.runs.iter();
            for run in runs.filter(|run| run.cell == cell && run.kind == *kind) {
                text.push_str(&row(run));
            }
            text.push('\n');
        }
    }
    text.push_str(&paper(comparison));
    text.push_str(&assumed(comparison));
    text
}

/// Describes cluster, loads and trace.
pub fn setting(grid: &Grid) -> String {
    let models = &grid.assumptions.models;
    format!(
        "{} nodes, {} on average for SVT and QA-Audio, {} times that for SS and {} times for QA-Text, {} s, seed {}",
        grid.nodes, grid.mean, models.ss_load, models.qa_text_load, grid.seconds, grid.seed
    )
}

fn header() -> String {
    format!(
        "{:<9} {:<9} {:<17} {:>26} {:>15} {:>8} {:>9} {:>8} {:>6} {:>8} {:>6} {:>14}",
        "",
        "requests",
        "policy",
        "memory GB mean/median/peak",
        "CPUs mean/peak",
        "late",
        "queue ms",
        "starts",
        "cold",
        "load GB",
        "no room",
        "decide us/most"
    )
}

fn row(run: &PolicyRun) -> String {
    let one = &run.outcome;
    let memory = one.memory_bytes;
    let memory = [memory.mean, memory.median, memory.peak].map(|bytes| bytes as f64 / GB);
    let [mean, median, peak] = memory.map(|gb| format!("{gb:.1}"));
    let cpu = [one.cpu_millis.mean, one.cpu_millis.peak].map(|millis| millis as f64 / 1e3);
    format!(
        "{:<9} {:<9} {:<17} {:>26} {:>15} {:>7.2}% {:>9.2} {:>8} {:>6} {:>8.1} {:>6} {:>14}\n",
        run.cell,
        run.kind,
        run.policy,
        format!("{mean} {median} {peak}"),
        format!("{:.0} {:.0}", cpu[0], cpu[1]),
        percent(one.violations, one.requests),
        one.queue.mean_us() as f64 / 1e3,
        one.starts,
        one.cold_starts,
        one.loaded_bytes as f64 / GB,
        one.unplaced,
        format!("{} {}", one.decision_us.mean, one.decision_us.peak),
    )
}

/// Returns `part` of `all`, in percent.
pub fn percent(part: u64, all: u64) -> f64 {
    part as f64 * 100.0 / all.max(1) as f64
}

fn paper(comparison: &Comparison) -> String {
    let mut text = String::from("Figures 12 to 14 in the paper's text, and here\n");
    for checked in &comparison.claims {
        let _infallible = writeln!(text, "{}", claim(checked));
    }
    for (against, tenths) in SAVED_TENTHS_GB {
        let _infallible = writeln!(text, "{}", saving(comparison, against, tenths));
    }
    let _infallible = writeln!(
        text,
        "Requests beyond the objective, DTS and INFless: paper below {MOST_VIOLATIONS_PERCENT} %, here see above"
    );
    text
}

/// Formats the savings of figure 14b against one policy as a line.
fn saving(comparison: &Comparison, against: Policy, tenths: u64) -> String {
    let own = comparison.savings.iter();
    let own = own.filter(|saving| saving.against == against);
    let mut each: Vec<String> = own
        .map(|saving| {
            let name = saving.application.map_or("all", |one| one.name());
            format!("{name} {:.1}", saving.bytes_per_100_rps as f64 / GB)
        })
        .collect();
    if each.is_empty() {
        each.push("not run".to_owned());
    }
    format!(
        "DTS against {against}: GB less per 100 requests/s, stable: paper {}, here {}",
        tenths as f64 / 10.0,
        each.join(", ")
    )
}

/// Formats a claim as a line.
pub fn claim(checked: &Checked) -> String {
    let claim = checked.claim;
    let kind = claim
        .kind
        .map_or("all kinds".to_owned(), |kind| kind.to_string());
    let here = simulated(checked);
    format!(
        "{} against {}, {}, {kind}: {} less by percent: paper {}, here {here}",
        claim.policy,
        claim.against,
        claim.application.name(),
        claim.measure.name(),
        claim.percent
    )
}

/// Formats the simulated value of a claim, in percent.
pub fn simulated(checked: &Checked) -> String {
    let permille = checked.simulated_permille;
    permille.map_or("not run".to_owned(), |permille| {
        format!("{:.1}", permille as f64 / 10.0)
    })
}

fn assumed(comparison: &Comparison) -> String {
    let mut text = String::from(
        "\nFrom the paper: applications, sizes of models (table 4), nodes (table 3), models\n\
         without batching, B and P, speeds of loading, and private memory marked (paper).\n\
         The operator's own defaults: interval, window, headroom, steady time and cost of\n\
         CPU. The rest is assumed; --sweep varies it:\n",
    );
    for model in MODELS {
        let _infallible = writeln!(
            text,
            "{:<12} {:>5} MB of tensors, {:>3} MB own ({}), {:>3} ms of work, objective {:>3} ms, batches: {}",
            model.name,
            model.tensor_mb,
            model.own_mb,
            if model.own_from_paper {
                "paper"
            } else {
                "assumed"
            },
            model.work_us / 1_000,
            model.slo_us / 1_000,
            if model.batchable { "yes" } else { "no" },
        );
    }
    text.push('\n');
    for policy in &comparison.grid.policies {
        let _infallible = writeln!(text, "{:<17} {}", policy.name(), policy.about());
    }
    text
}
