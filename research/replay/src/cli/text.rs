//! The report as tables.

use tetris_conventions::text_table::{TextTable, entry, wrap};
use tetris_reclaimer_replay::compare::{Comparison, Grid, Score, TIE_PERCENT, score};

/// Columns of figures.
const FIGURES: [&str; 4] = [
    "#byte hits\n%",
    "#reload\ns",
    "#memory\nGiB hours",
    "#slowdown",
];

/// Formats the report.
pub fn report(comparison: &Comparison) -> String {
    let grid = &comparison.grid;
    let mut parts = vec![format!(
        "{} hours, seeds {:?}, mean over the seeds",
        grid.hours, grid.seeds
    )];
    parts.extend(file(grid).map(|about| wrap(&about, 0)));
    parts.extend([each(comparison), all(comparison)]);
    let candidates = comparison.candidates.iter();
    let candidates = candidates.map(|candidate| entry(candidate.name, candidate.about));
    parts.push(format!(
        "Policies:\n{}",
        candidates.collect::<Vec<_>>().join("\n")
    ));
    let winner = comparison.winner.unwrap_or("none");
    let rule = format!(
        "The right default is {winner}: of the policies within {TIE_PERCENT} % of the lowest \
         slowdown (reload time over that of the best policy of each cell, geometric mean), the one \
         with the least memory in use."
    );
    parts.push(wrap(&rule, 0) + "\n");
    parts.join("\n\n")
}

/// Describes the file of requests, if there is one.
pub fn file(grid: &Grid) -> Option<String> {
    let file = grid.file.as_ref()?;
    let rate = file.micro_rps.map_or_else(String::new, |micro_rps| {
        format!(", scaled to {} requests/s", micro_rps as f64 / 1e6)
    });
    Some(format!(
        "Requests come as those of {}{rate}",
        file.trace.about()
    ))
}

/// A row for each kind of trace, size of the store and policy.
fn each(comparison: &Comparison) -> String {
    let keys = ["trace", "#store\n%", "policy"];
    let mut table = TextTable::new(3, keys.iter().chain(&FIGURES));
    for kind in comparison.grid.sources() {
        for size in &comparison.grid.sizes_percent {
            let cell: Vec<_> = comparison
                .runs
                .iter()
                .filter(|run| run.kind == kind && run.size_percent == *size)
                .cloned()
                .collect();
            for candidate in &comparison.candidates {
                let score = score(candidate.name, &cell);
                let place = [kind.to_string(), size.to_string()];
                table.add(place.into_iter().chain(row(&score)).collect());
            }
        }
    }
    table.format()
}

/// A row for each policy, over all traces and sizes.
fn all(comparison: &Comparison) -> String {
    let mut table = TextTable::new(1, ["policy"].iter().chain(&FIGURES));
    for score in &comparison.scores {
        table.add(row(score).to_vec());
    }
    format!("All traces and sizes\n{}", table.format())
}

/// Policy and figures.
fn row(score: &Score) -> [String; 5] {
    [
        score.policy.to_owned(),
        format!("{:.1}", score.hit_ratio * 100.0),
        format!("{:.0}", score.reload_secs),
        format!("{:.0}", score.gib_hours),
        format!("{:.3}", score.slowdown),
    ]
}
