//! Report as tables.

use std::fmt::Write;

use tetris_scaler_simulator::catalog::MODELS;
use tetris_scaler_simulator::paper::{
    Checked, MOST_VIOLATIONS_PERCENT, SAVED_TENTHS_GB, saved_bytes_per_100_rps,
};
use tetris_scaler_simulator::{Comparison, PolicyRun};

const GB: f64 = 1e9;

/// Returns the whole report.
pub fn report(comparison: &Comparison) -> String {
    let grid = &comparison.grid;
    let mut text = format!(
        "{} nodes, {} on average for SVT and QA-Audio, 10 times that for SS and 25 times for QA-Text, {} s, seed {}\n\n{}\n",
        grid.nodes,
        grid.mean,
        grid.seconds,
        grid.seed,
        header()
    );
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

fn header() -> String {
    format!(
        "{:<9} {:<9} {:<14} {:>26} {:>15} {:>8} {:>8} {:>6} {:>8} {:>6} {:>14}",
        "",
        "requests",
        "policy",
        "memory GB mean/median/peak",
        "CPUs mean/peak",
        "late",
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
        "{:<9} {:<9} {:<14} {:>26} {:>15} {:>7.2}% {:>8} {:>6} {:>8.1} {:>6} {:>14}\n",
        run.cell,
        run.kind,
        run.policy,
        format!("{mean} {median} {peak}"),
        format!("{:.0} {:.0}", cpu[0], cpu[1]),
        percent(one.violations, one.requests),
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
    let micro_rps = comparison.grid.mean.micro_rps();
    for (against, tenths) in SAVED_TENTHS_GB {
        let saved = saved_bytes_per_100_rps(&comparison.runs, against, micro_rps);
        let saved = saved.map_or("not run".to_owned(), |bytes| {
            format!("{:.1}", bytes as f64 / GB)
        });
        let _infallible = writeln!(
            text,
            "DTS against {against}: GB less per 100 requests/s, all applications, stable: paper {}, here {saved}",
            tenths as f64 / 10.0
        );
    }
    let _infallible = writeln!(
        text,
        "Requests beyond the objective, DTS and INFless: paper below {MOST_VIOLATIONS_PERCENT} %, here see above"
    );
    text
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
        "\nFrom the paper: applications, sizes of models (table 4), nodes (table 3), models without batching, B and P,\n\
         speed of loading, and private memory marked (paper). The rest is assumed:\n",
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
        let _infallible = writeln!(text, "{:<14} {}", policy.name(), policy.about());
    }
    text
}
