//! The default configuration is the winner of the replay.

use tetris_reclaimer_core::StorePolicy;
use tetris_reclaimer_replay::compare::{Comparison, Grid, candidates, compare};

fn run(grid: Grid) -> Comparison {
    compare(grid).unwrap()
}

#[test]
fn the_default_policy_is_the_winner_of_the_replay() {
    let comparison = run(Grid::default());
    let scores: Vec<String> = comparison
        .scores
        .iter()
        .map(|score| format!("{score:?}"))
        .collect();
    let winner = comparison.winner.unwrap();
    let winner = comparison
        .candidates
        .iter()
        .find(|candidate| candidate.name == winner);
    assert_eq!(
        winner.unwrap().policy,
        StorePolicy::default(),
        "{}",
        scores.join("\n")
    );
}

#[test]
fn a_comparison_follows_from_its_seeds() {
    let grid = || Grid {
        seeds: vec![5],
        sizes_percent: vec![40],
        hours: 3,
        ..Grid::default()
    };
    let (one, other) = (run(grid()), run(grid()));
    assert_eq!(one.runs.len(), 3 * candidates().len());
    for (a, b) in one.runs.iter().zip(&other.runs) {
        assert_eq!(a.outcome, b.outcome);
    }
    assert_eq!(one.winner, other.winner);
}
