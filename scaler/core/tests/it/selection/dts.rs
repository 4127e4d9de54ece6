//! Tests of Algorithm 1, against cases calculated by hand and against the published loop.

use proptest::prelude::*;
use tetris_scaler_core::{Choice, Configuration, MemoryTerm, Profile, Rate, Slo, Weights, dts};

use crate::selection::common::{MIB, profile, profiles, slo_ms};

fn pick(profile: &Profile, ms: u64, rps: u64, weights: Weights) -> Vec<(usize, u64)> {
    let selection = dts(profile, slo_ms(ms), Rate::from_rps(rps), weights).unwrap();
    let choices = selection.choices.iter();
    choices
        .map(|choice| (choice.configuration, choice.count))
        .collect()
}

#[test]
fn the_highest_normalized_throughput_that_meets_the_objective_is_taken() {
    // Requests per second and GiB: 10/1 = 10; 4*2/0.2 = 40, 40/2 = 20; 2*2/0.1 = 40, 40/1.25 = 32.
    let profile = profile(&[
        (1, 1_024, 1, 1, 100),
        (2, 2_048, 4, 2, 200),
        (2, 1_280, 2, 2, 100),
    ]);
    // Batches need l <= slo / 2: at 400 ms all meet it, at 200 ms the first and the last, at 199 ms
    // the first.
    assert_eq!(pick(&profile, 400, 100, Weights::PAPER), [(2, 3)]);
    assert_eq!(pick(&profile, 200, 100, Weights::PAPER), [(2, 3)]);
    assert_eq!(pick(&profile, 199, 100, Weights::PAPER), [(0, 10)]);
    assert_eq!(pick(&profile, 100, 100, Weights::PAPER), [(0, 10)]);
    assert_eq!(pick(&profile, 400, 80, Weights::PAPER), [(2, 2)]);
    assert_eq!(pick(&profile, 400, 81, Weights::PAPER), [(2, 3)]);
}

#[test]
fn alpha_weighs_cpu_against_memory() {
    // Both carry 10 per second: 1 core and 400 MiB, or 4 cores and 100 MiB.
    let profile = profile(&[(1, 400, 1, 1, 100), (4, 100, 1, 1, 100)]);
    let alpha = |mib_per_core: u64| {
        Weights::try_new(mib_per_core * MIB / 1_000, MemoryTerm::Whole).unwrap()
    };
    assert_eq!(pick(&profile, 100, 10, Weights::PAPER), [(1, 1)]);
    // 400 + 1 * 99 > 100 + 4 * 99, 400 + 1 * 101 < 100 + 4 * 101.
    assert_eq!(pick(&profile, 100, 10, alpha(99)), [(1, 1)]);
    assert_eq!(pick(&profile, 100, 10, alpha(101)), [(0, 1)]);
}

#[test]
fn no_load_needs_no_instance() {
    let profile = profile(&[(1, 400, 1, 1, 100)]);
    assert_eq!(pick(&profile, 100, 0, Weights::PAPER), []);
    // This holds even if no objective can be met: the published loop is never entered.
    assert_eq!(pick(&profile, 99, 0, Weights::PAPER), []);
}

#[test]
fn thirds_of_a_second_add_up() {
    // 3 instances of 1 / 3 ms carry exactly 1,000 per second.
    let profile = profile(&[(1, 400, 1, 1, 3)]);
    assert_eq!(pick(&profile, 100, 1_000, Weights::PAPER), [(0, 3)]);
}

#[test]
fn an_objective_that_nothing_meets_is_explained() {
    let profile = profile(&[(1, 400, 1, 1, 100), (1, 400, 2, 1, 49)]);
    let error = dts(&profile, slo_ms(97), Rate::from_rps(1), Weights::PAPER).unwrap_err();
    assert_eq!(error.least_slo_us, 98_000);
    assert_eq!(
        error.to_string(),
        "no configuration meets an objective of 97000 us; the smallest that one meets is 98000 us"
    );
}

#[test]
fn extreme_numbers_do_not_overflow() {
    let profile = profile(&[
        (10_000, 1 << 30, 4_096, 4_096, 3_600_000),
        (1, 2, 1, 1, 3_600_000),
    ]);
    let weights = Weights::try_new(1 << 40, MemoryTerm::Whole).unwrap();
    let load = Rate::from_micro_rps(u64::MAX);
    let selection = dts(&profile, slo_ms(7_200_000), load, weights).unwrap();
    assert_eq!(selection.rate, load);
    assert!(selection.cost > u128::from(u64::MAX));
}

/// Implements lines 1 to 11 of Algorithm 1 as printed, with R in millionths.
fn published(profile: &Profile, slo: Slo, residual: Rate) -> Vec<Choice> {
    let all = profile.configurations();
    let mut order: Vec<usize> = (0..all.len()).collect();
    let normalized = |one: &Configuration| {
        f64::from(one.batch() * one.concurrency())
            / (one.latency_us() as f64 * one.memory_bytes() as f64)
    };
    order.sort_by(|&a, &b| normalized(&all[b]).total_cmp(&normalized(&all[a])));
    let mut counts = vec![0; all.len()];
    let mut remains = i128::from(residual.micro_rps());
    while remains > 0 {
        for &index in &order {
            let configuration = &all[index];
            if configuration.batch() == 1 && configuration.latency_us() > slo.us() {
                continue;
            }
            if configuration.batch() > 1
                && configuration.latency_us() as f64 > slo.us() as f64 / 2.0
            {
                continue;
            }
            remains -= i128::from(configuration.rate().micro_rps());
            counts[index] += 1;
            break;
        }
    }
    let indexed = counts.into_iter().enumerate();
    let choices = indexed.map(|(configuration, count)| Choice {
        configuration,
        count,
    });
    choices.filter(|choice| choice.count > 0).collect()
}

proptest! {
    #[test]
    fn the_result_is_that_of_the_published_loop(
        profile in profiles(), ms in 5..2_000_u64, milli_rps in 1..500_000_u64,
    ) {
        let (slo, load) = (slo_ms(ms), Rate::from_milli_rps(milli_rps));
        match dts(&profile, slo, load, Weights::PAPER) {
            Ok(selection) => {
                let published = published(&profile, slo, load);
                // Equal quotients may be sorted either way; then the throughput per byte is the
                // same.
                let same = selection.choices == published;
                let tied = |choices: &[Choice]| choices.first().map(|choice| {
                    let configuration = profile.configurations()[choice.configuration];
                    let requests = u128::from(configuration.batch() * configuration.concurrency());
                    (requests, u128::from(configuration.latency_us()) * u128::from(configuration.memory_bytes()))
                });
                let tie = match (tied(&selection.choices), tied(&published)) {
                    (Some((a, b)), Some((c, d))) => a * d == b * c,
                    _ => false,
                };
                prop_assert!(same || tie, "{:?} and {published:?}", selection.choices);
                prop_assert!(selection.rate >= load);
            }
            Err(error) => {
                prop_assert!(profile.configurations().iter().all(|configuration| !configuration.meets(slo)));
                let met = Slo::try_from_us(error.least_slo_us).unwrap();
                prop_assert!(dts(&profile, met, load, Weights::PAPER).is_ok());
                let missed = Slo::try_from_us(error.least_slo_us - 1).unwrap();
                prop_assert!(dts(&profile, missed, load, Weights::PAPER).is_err());
            }
        }
    }
}
