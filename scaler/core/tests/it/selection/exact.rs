//! Tests of the exact solver, against hand-calculated cases, enumeration, another solver and DTS.

use microlp::{ComparisonOp, OptimizationDirection, Problem, SolveOutcome};
use proptest::prelude::*;
use tetris_scaler_core::{
    MemoryTerm, Profile, Rate, Slo, Solution, Weights, dts, solve, solve_within,
};

use crate::selection::common::{MIB, profile, profiles, slo_ms};

fn rps(rps: u64) -> Rate {
    Rate::from_rps(rps)
}

fn counts(solution: &Solution) -> Vec<(usize, u64)> {
    let choices = solution.selection.choices.iter();
    choices
        .map(|choice| (choice.configuration, choice.count))
        .collect()
}

#[test]
fn the_last_pick_does_not_overshoot() {
    // 100 per second for 1,000 MiB, 20 per second for 300 MiB. DTS takes two of the first for 120.
    let profile = profile(&[(4, 1_000, 1, 4, 40), (1, 300, 1, 1, 50)]);
    let greedy = dts(&profile, slo_ms(50), rps(120), Weights::PAPER).unwrap();
    assert_eq!(greedy.memory_bytes, u128::from(2_000 * MIB));
    let exact = solve(&profile, slo_ms(50), rps(120), Weights::PAPER).unwrap();
    assert_eq!(counts(&exact), [(0, 1), (1, 1)]);
    assert_eq!(exact.selection.cost, u128::from(1_300 * MIB));
    assert!(exact.optimal);
}

#[test]
fn the_best_mix_may_hold_none_of_the_best_configuration() {
    // 10 for 100 MiB, 7 for 71, 4 for 45. 14 per second: 2 x 7 for 142, where 10 + 4 is 145.
    let profile = profile(&[
        (1, 100, 1, 1, 100),
        (2, 71, 1, 7, 1_000),
        (1, 45, 1, 4, 1_000),
    ]);
    let exact = solve(&profile, slo_ms(1_000), rps(14), Weights::PAPER).unwrap();
    assert_eq!(counts(&exact), [(1, 2)]);
}

#[test]
fn memory_that_is_shared_need_not_count() {
    let weights = Weights::PAPER.counting(MemoryTerm::Own);
    let profile = profile(&[(1, 100, 1, 1, 100)]);
    let exact = solve(&profile, slo_ms(100), rps(30), weights).unwrap();
    assert_eq!(exact.selection.cost, u128::from(150 * MIB));
    assert_eq!(exact.selection.memory_bytes, u128::from(300 * MIB));
}

#[test]
fn an_objective_that_nothing_meets_is_explained() {
    let profile = profile(&[(1, 100, 1, 1, 100)]);
    let error = solve(&profile, slo_ms(99), rps(1), Weights::PAPER).unwrap_err();
    assert_eq!((error.slo_us, error.least_slo_us), (99_000, 100_000));
    assert!(
        solve(&profile, slo_ms(99), Rate::ZERO, Weights::PAPER)
            .unwrap()
            .optimal
    );
}

#[test]
fn extreme_numbers_do_not_overflow() {
    let profile = profile(&[
        (10_000, 1 << 30, 4_096, 4_096, 3_600_000),
        (9_999, (1 << 30) - 7, 4_095, 4_096, 3_599_999),
        (1, 2, 1, 1, 3_600_000),
        (2, 3, 1, 1, 3_599_999),
    ]);
    let weights = Weights::try_new((1 << 40) - 1, MemoryTerm::Whole).unwrap();
    for micro in [1, 1 << 40, u64::MAX] {
        let load = Rate::from_micro_rps(micro);
        let exact = solve(&profile, slo_ms(7_200_000), load, weights).unwrap();
        assert!(exact.selection.rate >= load);
        let greedy = dts(&profile, slo_ms(7_200_000), load, weights).unwrap();
        assert!(exact.selection.cost <= greedy.cost);
        assert!(exact.lower_bound <= exact.selection.cost);
    }
}

/// Returns the optimum by enumeration: the least cost that carries `load`, by dynamic programming
/// over MiB.
fn enumerated(profile: &Profile, slo: Slo, load: Rate) -> u64 {
    let items: Vec<(usize, u64)> = profile
        .feasible(slo)
        .map(|(_, feasible)| {
            (
                (feasible.memory_bytes() / MIB) as usize,
                feasible.rate().micro_rps(),
            )
        })
        .collect();
    let mut most = vec![0_u64];
    while *most.last().unwrap() < load.micro_rps() {
        let budget = most.len();
        let reach =
            |&(cost, rate): &(usize, u64)| budget.checked_sub(cost).map(|rest| most[rest] + rate);
        let best = items.iter().filter_map(reach).max().unwrap_or(0);
        most.push(best.max(most[budget - 1]));
    }
    (most.len() - 1) as u64 * MIB
}

/// Returns the optimum in MiB by another solver, in floating point.
fn milp(profile: &Profile, slo: Slo, load: Rate) -> f64 {
    let mut problem = Problem::new(OptimizationDirection::Minimize);
    let mut sum = Vec::new();
    for (_, entry) in profile.feasible(slo) {
        let variable = problem.add_integer_var((entry.memory_bytes() / MIB) as f64, (0, 100_000));
        sum.push((variable, entry.rate().micro_rps() as f64 / 1e6));
    }
    problem.add_constraint(&sum, ComparisonOp::Ge, load.micro_rps() as f64 / 1e6);
    match problem.solve().unwrap() {
        SolveOutcome::Solution(solution) => solution.objective(),
        SolveOutcome::Interrupted(_) => panic!("no limit was set"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn the_answer_is_that_of_another_solver(
        profile in profiles(), ms in 20..2_000_u64, milli_rps in 1..120_000_u64,
    ) {
        let (slo, load) = (slo_ms(ms), Rate::from_milli_rps(milli_rps));
        prop_assume!(profile.feasible(slo).next().is_some());
        let exact = solve(&profile, slo, load, Weights::PAPER).unwrap();
        prop_assert!(exact.optimal && exact.selection.rate >= load);
        let mib = (exact.selection.cost / u128::from(MIB)) as f64;
        let other = milp(&profile, slo, load);
        // Costs are whole MiB; an error within the other solver's tolerance would be a difference
        // of 1 or more.
        prop_assert!((mib - other).abs() < 0.5, "{mib} and {other}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn the_answer_is_that_of_enumeration(
        profile in profiles(), ms in 20..2_000_u64, milli_rps in 1..60_000_u64,
    ) {
        let (slo, load) = (slo_ms(ms), Rate::from_milli_rps(milli_rps));
        prop_assume!(profile.feasible(slo).next().is_some());
        let exact = solve(&profile, slo, load, Weights::PAPER).unwrap();
        prop_assert_eq!(exact.selection.cost, u128::from(enumerated(&profile, slo, load)));
    }

    #[test]
    fn it_is_never_worse_than_dts_and_carries_the_load(
        profile in profiles(), ms in 20..2_000_u64, load in 1..10_000_000_000_000_u64,
        alpha in 0..100_000_u64, own in any::<bool>(), max_steps in 0..2_000_usize,
    ) {
        let (slo, load) = (slo_ms(ms), Rate::from_micro_rps(load));
        prop_assume!(profile.feasible(slo).next().is_some());
        let term = if own { MemoryTerm::Own } else { MemoryTerm::Whole };
        let weights = Weights::try_new(alpha, term).unwrap();
        let greedy = dts(&profile, slo, load, weights).unwrap();
        let full = solve(&profile, slo, load, weights).unwrap();
        let short = solve_within(&profile, slo, load, weights, max_steps).unwrap();
        for solution in [&full, &short] {
            prop_assert!(solution.selection.cost <= greedy.cost);
            prop_assert!(solution.selection.rate >= load);
            prop_assert!(solution.lower_bound <= full.selection.cost);
            prop_assert_eq!(solution.optimal, solution.lower_bound == solution.selection.cost);
            for choice in &solution.selection.choices {
                prop_assert!(profile.configurations()[choice.configuration].meets(slo));
            }
        }
    }

    #[test]
    fn the_order_of_the_profile_does_not_matter(
        profile in profiles(), ms in 20..2_000_u64, milli_rps in 1..500_000_u64,
    ) {
        let (slo, load) = (slo_ms(ms), Rate::from_milli_rps(milli_rps));
        prop_assume!(profile.feasible(slo).next().is_some());
        let mut reversed = profile.configurations().to_vec();
        reversed.reverse();
        let reversed = Profile::try_new(reversed).unwrap();
        let solution = solve(&profile, slo, load, Weights::PAPER).unwrap();
        let mut other = solve(&reversed, slo, load, Weights::PAPER).unwrap();
        for choice in &mut other.selection.choices {
            choice.configuration = profile.configurations().len() - 1 - choice.configuration;
        }
        other.selection.choices.sort_unstable();
        prop_assert_eq!(solution, other);
    }
}
