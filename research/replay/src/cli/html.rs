//! The report as a page.

use tetris_reclaimer_replay::compare::{Comparison, Score, TIE_PERCENT, score};
use tetris_simulation::TraceSource;
use tetris_simulation::page::{self, Row, bars, key, table};

use super::text::file;

/// A value plotted for every policy.
struct Measure {
    name: &'static str,
    of: fn(&Score) -> f64,
}

const MEASURES: [Measure; 3] = [
    Measure {
        name: "reload time, thousands of seconds",
        of: |score| score.reload_secs / 1000.0,
    },
    Measure {
        name: "byte hits, percent",
        of: |score| score.hit_ratio * 100.0,
    },
    Measure {
        name: "memory in use, GiB hours",
        of: |score| score.gib_hours,
    },
];

/// Formats the page.
pub fn page(comparison: &Comparison) -> String {
    let grid = &comparison.grid;
    let winner = comparison.winner.unwrap_or("none");
    let lead = format!(
        "Reclaim policies on traces of {} hours, seeds {:?}, with stores of different sizes (percent of \
         the distinct bytes of all models). The right default is <span class=\"winner\">{winner}</span>: of the \
         policies within {TIE_PERCENT} % of the lowest slowdown, the one with the least memory in use.",
        grid.hours, grid.seeds
    );
    let file = file(grid).map_or_else(String::new, |about| {
        format!("<p>{}.</p>", page::escape(&about))
    });
    let mut body = format!("<section>{file}{}</section>", scores(comparison));
    for kind in grid.sources() {
        let plots = MEASURES
            .iter()
            .map(|measure| plot(comparison, kind, measure));
        let plots: String = plots.collect();
        body.push_str(&page::plots(&format!("{kind} requests"), &plots));
    }
    page::page(
        "Tetris reclaim policies",
        "Reclaim policies compared",
        &lead,
        &body,
    )
}

fn scores(comparison: &Comparison) -> String {
    let both = comparison.scores.iter().zip(&comparison.candidates);
    let rows = both.enumerate().map(|(index, (score, candidate))| Row {
        cells: vec![
            key(index, score.policy),
            candidate.about.to_owned(),
            format!("{:.3}", score.slowdown),
            format!("{:.0}", score.reload_secs),
            format!("{:.1} %", score.hit_ratio * 100.0),
            format!("{:.0}", score.gib_hours),
        ],
        class: if comparison.winner == Some(score.policy) {
            "winner"
        } else {
            ""
        },
    });
    let heads = [
        "policy",
        "",
        "slowdown",
        "reload s",
        "byte hits",
        "GiB hours",
    ];
    table(&heads, 2, rows)
}

/// Draws grouped bars, one group for each size of the store.
fn plot(comparison: &Comparison, kind: TraceSource, measure: &Measure) -> String {
    let mut groups = Vec::new();
    for size in &comparison.grid.sizes_percent {
        let cell: Vec<_> = comparison
            .runs
            .iter()
            .filter(|run| run.kind == kind && run.size_percent == *size)
            .cloned()
            .collect();
        let of = |name| (measure.of)(&score(name, &cell));
        let names = comparison.candidates.iter().map(|candidate| candidate.name);
        let bars = names.map(|name| (name.to_owned(), of(name)));
        groups.push((format!("store {size} %"), bars.collect()));
    }
    bars(measure.name, &groups)
}
