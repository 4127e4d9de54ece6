//! Report of a sweep as tables.

use std::fmt::Write;

use tetris_scaler_simulator::sweep::{
    AS_TIMELY_PER_100_000, Point, Sweep, SweepRun, Wins, competitors,
};
use tetris_scaler_simulator::{Column, Policy};

use super::text::setting;

/// Returns the whole report.
pub fn report(sweep: &Sweep) -> String {
    let mut text = format!(
        "{}\n{} points x {} kinds of requests, all applications together\n",
        setting(&sweep.grid),
        sweep.points.len(),
        sweep.grid.kinds.len()
    );
    text.push_str(&wins(sweep));
    text.push_str(&inputs(sweep));
    let infeasible: usize = sweep.runs.iter().map(|run| run.infeasible.len()).sum();
    let _infallible = writeln!(
        text,
        "\n{infeasible} runs of a policy that has no configuration within an objective; they count for nothing"
    );
    text
}

/// Heading of a view.
pub fn heading(one: &Wins) -> String {
    if one.timely {
        format!(
            "{} of policies with at most {} more late requests in 100 than the fewest",
            one.column.name(),
            AS_TIMELY_PER_100_000 / 1_000
        )
    } else {
        one.column.name().to_owned()
    }
}

fn wins(sweep: &Sweep) -> String {
    let mut text = String::new();
    let mut before = None;
    for one in &sweep.wins {
        let view = (one.column, one.timely);
        if before != Some(view) {
            let _infallible = writeln!(
                text,
                "\n{}\n{:<17} {:>9} {:>7} {:>12} {:>12} {:>12}",
                heading(one),
                "",
                "best",
                "of",
                "lead %",
                "excess %",
                "worst %"
            );
            before = Some(view);
        }
        let [lead, mean, worst] = percents(one);
        let _infallible = writeln!(
            text,
            "{:<17} {:>9} {:>7} {lead:>12} {mean:>12} {worst:>12}",
            one.policy.name(),
            one.wins,
            one.of
        );
    }
    text
}

/// Lead over the second best, mean excess over the best, and largest excess, in percent.
pub fn percents(one: &Wins) -> [String; 3] {
    [
        one.lead_permille,
        one.excess_permille,
        one.worst_excess_permille,
    ]
    .map(|permille| format!("{:.1}", permille as f64 / 10.0))
}

fn inputs(sweep: &Sweep) -> String {
    let mut text = format!(
        "\nOne input at a time: the timely policy with the least mean memory for each kind of requests, and its lead;\n\
         and mean memory of sharing-aware against DTS, in percent\n{:<24} {:>12} {}\n",
        "", "value", "best"
    );
    for (at, point) in sweep.points.iter().enumerate() {
        let Some((name, value)) = title(point) else {
            continue;
        };
        let runs = sweep.runs.iter().filter(|run| run.point == at);
        let cells: Vec<String> = runs.map(cell).collect();
        let _infallible = writeln!(text, "{name:<24} {value:>12} {}", cells.join("; "));
    }
    text.push_str("\nInvented inputs: low, default and high\n");
    for one in &sweep.inputs {
        let _infallible = writeln!(
            text,
            "{:<24} {:>12} {:>12} {:>12}  {}",
            one.input.name, one.input.low, one.default, one.input.high, one.input.about
        );
    }
    text
}

/// Returns the name and value of a point's input; `None` for a random combination.
pub fn title(point: &Point) -> Option<(String, String)> {
    if point.random {
        return None;
    }
    let change = point.changes.first();
    Some(
        change.map_or(("(defaults)".to_owned(), String::new()), |one| {
            (one.input.to_owned(), one.value.to_string())
        }),
    )
}

/// Returns the winner of a run with its lead, and sharing-aware against DTS.
pub fn cell(run: &SweepRun) -> String {
    let mut all = competitors(run, Column::MeanMemory, true);
    all.sort_by_key(|&(policy, value)| (value, policy));
    let best = match all.as_slice() {
        [(policy, value), (_, second), ..] => {
            let lead = 100.0 - *value as f64 * 100.0 / (*second).max(1) as f64;
            format!("{policy} {lead:.1}")
        }
        [(policy, _)] => format!("{policy} alone"),
        [] => "none".to_owned(),
    };
    let memory = |policy: Policy| {
        let found = run.results.iter().find(|one| one.policy == policy);
        found.map(|one| one.value(Column::MeanMemory) as f64)
    };
    let against = match (memory(Policy::SharingAware), memory(Policy::Dts)) {
        (Some(own), Some(other)) if other > 0.0 => {
            format!(" ({:+.1})", own * 100.0 / other - 100.0)
        }
        _ => String::new(),
    };
    format!("{} {best}{against}", run.kind)
}
