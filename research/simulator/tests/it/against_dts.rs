//! Sharing-aware beside DTS with placement, in every committed scenario and column.

use std::path::Path;
use std::thread;

use serde_json::Value;
use tetris_scaler_simulator::against_dts::{EXCEPTIONS, Exception, Why, Worse, worse};
use tetris_scaler_simulator::{Column, Grid, Policy, PolicyRun, compare};
use tetris_simulation::{TraceKind, TraceSource};

const POLICIES: [Policy; 2] = [Policy::Dts, Policy::SharingAware];

fn exception(one: &Worse) -> Option<&'static Exception> {
    let same = |other: &&Exception| {
        (other.cell, other.kind.into(), other.column) == (one.cell, one.kind, one.column)
    };
    EXCEPTIONS.iter().find(same)
}

/// Fails if a column is worse that no exception allows.
fn check(found: &[Worse], origin: &str) {
    let bad = found.iter().filter(|entry| {
        let most = exception(entry).map(|exception| exception.most_percent);
        // In a column in which DTS has nothing, any excess of the exception is accepted.
        most.is_none_or(|most| entry.dts > 0 && entry.own * 100 > entry.dts * most)
    });
    let bad: Vec<&Worse> = bad.collect();
    assert!(
        bad.is_empty(),
        "{origin}: sharing-aware is worse than DTS, and EXCEPTIONS does not say so: {bad:#?}"
    );
}

fn simulated() -> Vec<PolicyRun> {
    let run = |kind: TraceKind| {
        let grid = Grid {
            kinds: vec![kind],
            policies: POLICIES.to_vec(),
            ..Grid::default()
        };
        compare(grid, &mut || 0).unwrap().runs
    };
    thread::scope(|scope| {
        let threads = TraceKind::ALL.map(|kind| scope.spawn(move || run(kind)));
        let runs = threads.map(|thread| thread.join().unwrap());
        runs.into_iter().flatten().collect()
    })
}

#[test]
fn sharing_aware_is_not_worse_than_dts_but_where_the_table_says_so() {
    let runs = simulated();
    assert_eq!(runs.len(), 5 * 3 * 2);
    let worse_ones = worse(&runs);
    check(&worse_ones, "the default run");
}

#[test]
fn the_committed_figures_have_these_exceptions_and_no_others() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/benchmarks/simulator.json");
    let figures: Value = serde_json::from_str(&std::fs::read_to_string(root).unwrap()).unwrap();
    let runs = figures["result"]["runs"].as_array().unwrap();
    let (mut compared, mut found) = (0, Vec::new());
    for own in runs.iter().filter(|run| run["policy"] == "sharing-aware") {
        let same = |run: &&Value| {
            run["policy"] == "dts" && run["cell"] == own["cell"] && run["kind"] == own["kind"]
        };
        let dts = runs.iter().find(same).unwrap();
        let cells = Grid::default().cells();
        let cell = cells
            .iter()
            .find(|(name, _)| own["cell"] == *name)
            .unwrap()
            .0;
        let kind: TraceSource = serde_json::from_value(own["kind"].clone()).unwrap();
        let both = Column::ALL.map(|column| (column, value(own, column), value(dts, column)));
        let worse = both
            .into_iter()
            .filter(|&(column, own, dts)| column.is_worse(own, dts));
        let worse: Vec<Worse> = worse
            .map(|(column, own, dts)| Worse {
                cell,
                kind,
                column,
                own,
                dts,
            })
            .collect();
        found.extend(worse);
        compared += 1;
    }
    assert_eq!(compared, 15);
    check(&found, "docs/benchmarks/simulator.json");
    for entry in EXCEPTIONS {
        let same = |worse: &Worse| exception(worse) == Some(entry);
        assert!(
            found.iter().any(same),
            "no exception any more, take it out: {entry:?}"
        );
    }
}

fn value(run: &Value, column: Column) -> u64 {
    let outcome = &run["outcome"];
    let number = |value: &Value| value.as_u64().unwrap();
    match column {
        Column::MeanMemory => number(&outcome["memory_bytes"]["mean"]),
        Column::PeakMemory => number(&outcome["memory_bytes"]["peak"]),
        Column::MeanCpu => number(&outcome["cpu_millis"]["mean"]),
        Column::Late => number(&outcome["violations"]) * 100_000 / number(&outcome["requests"]),
        Column::ColdStarts => number(&outcome["cold_starts"]),
    }
}

#[test]
fn the_page_has_every_exception_and_its_cause() {
    let page = include_str!("../../README.md");
    for entry in EXCEPTIONS {
        let line = format!(
            "| {} | {} | {} | {} % | {} |",
            entry.cell,
            entry.kind,
            entry.column.name(),
            entry.most_percent,
            entry.why.name()
        );
        assert!(page.contains(&line), "the page lacks: {line}");
    }
    let rows = page.lines().filter(|line| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        cells.len() == 7 && Column::ALL.iter().any(|column| cells[3] == column.name())
    });
    assert_eq!(
        rows.count(),
        EXCEPTIONS.len(),
        "the page has rows that the table lacks"
    );
    let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
    for why in Why::ALL {
        let used = EXCEPTIONS.iter().any(|entry| entry.why == why);
        assert!(used, "{why:?} explains nothing");
        assert!(page.contains(why.text()), "the page lacks: {}", why.text());
    }
}
