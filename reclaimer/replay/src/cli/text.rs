//! The report as a table.

use std::fmt::Write;

use tetris_reclaimer_replay::compare::{Comparison, Score, TIE_PERCENT, score};

/// Formats the report.
pub fn report(comparison: &Comparison) -> String {
    let mut text = String::new();
    let grid = &comparison.grid;
    let mut line = |line: String| {
        text.push_str(&line);
        text.push('\n');
    };
    line(format!(
        "{} hours, seeds {:?}, mean over the seeds\n",
        grid.hours, grid.seeds
    ));
    line(header("trace      store"));
    for kind in &grid.kinds {
        for size in &grid.sizes_percent {
            let cell: Vec<_> = comparison
                .runs
                .iter()
                .filter(|run| run.kind == *kind && run.size_percent == *size)
                .cloned()
                .collect();
            for candidate in &comparison.candidates {
                let place = format!("{kind:<10} {size:>4}%");
                line(row(&place, &score(candidate.name, &cell)));
            }
        }
    }
    line(String::new());
    line(header("all"));
    for score in &comparison.scores {
        line(row("all", score));
    }
    line(String::new());
    for candidate in &comparison.candidates {
        line(format!("{:<20} {}", candidate.name, candidate.about));
    }
    let winner = comparison.winner.unwrap_or("none");
    let _infallible = write!(
        text,
        "\nThe right default is {winner}:\nof the policies within {TIE_PERCENT} % of the lowest slowdown (reload time over that of \
         the\nbest policy of each cell, geometric mean), the one with the least memory in use.\n"
    );
    text
}

fn header(first: &str) -> String {
    format!(
        "{first:<16} {:<20} {:>9} {:>10} {:>10} {:>9}",
        "policy", "byte hits", "reload s", "GiB hours", "slowdown"
    )
}

fn row(place: &str, score: &Score) -> String {
    format!(
        "{place:<16} {:<20} {:>8.1}% {:>10.0} {:>10.0} {:>9.3}",
        score.policy,
        score.hit_ratio * 100.0,
        score.reload_secs,
        score.gib_hours,
        score.slowdown
    )
}
