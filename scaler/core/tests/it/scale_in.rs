//! Tests of releases.

use std::collections::BTreeSet;

use proptest::prelude::*;
use tetris_scaler_core::{
    Because, Configuration, ConfigurationSpec, Rate, Release, Running, ScaleInConfig, ScaleInError,
    ScaleInPolicy, Slo, scale_in,
};

/// Creates an instance for `rps` with the load `load`; a `slow` one takes twice the objective.
fn running(name: &str, rps: u32, slow: bool, own_bytes: u64, load: u64) -> Running {
    let spec = ConfigurationSpec {
        cpu_millis: 1_000,
        own_bytes,
        shared_bytes: 0,
        batch: 1,
        concurrency: if slow { 2 * rps } else { rps },
        latency_us: if slow { 2_000_000 } else { 1_000_000 },
        rate_millis: None,
        gpu: None,
    };
    Running {
        name: name.to_owned(),
        configuration: Configuration::try_new(spec).unwrap(),
        load: Rate::from_rps(load),
    }
}

fn slo() -> Slo {
    Slo::try_from_us(1_000_000).unwrap()
}

fn policy(keep_percent: u32, min_instances: u32, max_releases: u32) -> ScaleInPolicy {
    ScaleInPolicy::try_new(ScaleInConfig {
        keep_percent,
        scale_out_percent: keep_percent / 2,
        min_instances,
        max_releases,
    })
    .unwrap()
}

fn release(all: &[Running], peak: u64, policy: &ScaleInPolicy) -> (Vec<usize>, Because) {
    let result = scale_in(all, slo(), Some(Rate::from_rps(peak)), policy);
    (result.release, result.because)
}

#[test]
fn the_least_loaded_go_as_long_as_the_rest_carries_load_and_headroom() {
    let all = [
        running("a", 10, false, 1, 7),
        running("b", 10, false, 1, 3),
        running("c", 10, false, 1, 5),
        running("d", 10, false, 1, 1),
    ];
    let policy = policy(10, 0, 9);
    // 16 plus a tenth is 17.6: two of ten stay. 18.2 plus a tenth needs three.
    assert_eq!(release(&all, 16, &policy), (vec![3, 1], Because::Load));
    assert_eq!(release(&all, 19, &policy), (vec![3], Because::Load));
    assert_eq!(release(&all, 28, &policy), (vec![], Because::Load));
    assert_eq!(release(&all, 37, &policy), (vec![], Because::Overloaded));
    assert_eq!(release(&all, 0, &policy), (vec![3, 1, 2, 0], Because::Load));
}

#[test]
fn one_that_is_needed_is_passed_over_for_a_smaller_one() {
    let all = [running("a", 50, false, 1, 1), running("b", 10, false, 1, 8)];
    assert_eq!(
        release(&all, 40, &policy(10, 0, 9)),
        (vec![1], Because::Load)
    );
}

#[test]
fn of_equal_ones_the_larger_goes_then_the_first_by_name() {
    let all = [
        running("b", 10, false, 5, 1),
        running("a", 10, false, 5, 1),
        running("c", 10, false, 9, 1),
    ];
    assert_eq!(release(&all, 1, &policy(10, 0, 9)).0, [2, 1]);
}

#[test]
fn what_breaks_the_objective_goes_first_if_the_rest_will_do() {
    let all = [running("a", 10, false, 1, 0), running("b", 10, true, 1, 9)];
    assert_eq!(
        release(&all, 9, &policy(10, 0, 9)),
        (vec![1], Because::Load)
    );
    // The slow one carries the rest of the load: it does not count, but is not released either.
    assert_eq!(
        release(&all, 10, &policy(10, 0, 9)),
        (vec![], Because::Overloaded)
    );
}

#[test]
fn a_minimum_stays_and_steps_are_bounded() {
    let all = ["a", "b", "c", "d"].map(|name| running(name, 10, false, 1, 0));
    assert_eq!(
        release(&all, 0, &policy(10, 2, 9)),
        (vec![0, 1], Because::Minimum)
    );
    assert_eq!(
        release(&all, 0, &policy(10, 0, 3)),
        (vec![0, 1, 2], Because::Step)
    );
    let early = scale_in(&all, slo(), None, &policy(10, 0, 9));
    assert_eq!(
        early,
        Release {
            remaining: Rate::from_rps(40),
            ..Release::default()
        }
    );
}

#[test]
fn policies_without_hysteresis_are_refused() {
    let config = ScaleInConfig {
        keep_percent: 5,
        ..ScaleInConfig::default()
    };
    let error = ScaleInPolicy::try_new(config).unwrap_err();
    assert!(
        matches!(
            error,
            ScaleInError::NoHysteresis {
                keep_percent: 5,
                ..
            }
        ),
        "{error}"
    );
    let config = ScaleInConfig {
        max_releases: 0,
        ..ScaleInConfig::default()
    };
    let error = ScaleInPolicy::try_new(config).unwrap_err();
    assert_eq!(
        error.to_string(),
        "`max_releases` is 0, expected 1 to 4294967295"
    );
    assert!(ScaleInPolicy::try_new(ScaleInConfig::default()).is_ok());
}

fn instances() -> impl Strategy<Value = Vec<Running>> {
    let row = (
        1..100_u32,
        proptest::bool::weighted(0.2),
        1..9_u64,
        0..60_u64,
    );
    proptest::collection::vec(row, 0..20).prop_map(|rows| {
        let indexed = rows.into_iter().enumerate();
        indexed
            .map(|(at, (rps, slow, own, load))| running(&format!("i{at}"), rps, slow, own, load))
            .collect()
    })
}

fn capacity(all: &[Running], gone: &[usize]) -> Rate {
    let stay = all.iter().enumerate().filter(|(at, _)| !gone.contains(at));
    let useful = stay.filter(|(_, entry)| entry.configuration.meets(slo()));
    useful.map(|(_, useful)| useful.configuration.rate()).sum()
}

proptest! {
    #[test]
    fn a_release_never_breaks_what_held_and_needs_no_start(
        all in instances(), peak in 0..900_u64, keep in 1..90_u32, least in 0..5_u32, most in 1..9_u32,
    ) {
        let (peak, policy) = (Rate::from_rps(peak), policy(keep, least, most));
        let result = scale_in(&all, slo(), Some(peak), &policy);
        let distinct: BTreeSet<usize> = result.release.iter().copied().collect();
        prop_assert_eq!(distinct.len(), result.release.len());
        prop_assert_eq!(result.remaining, capacity(&all, &result.release));
        if !result.release.is_empty() {
            prop_assert!(result.remaining >= peak.with_headroom(keep));
            prop_assert_eq!(policy.residual(peak, result.remaining), Rate::ZERO);
            prop_assert!(all.len() - result.release.len() >= least as usize);
            prop_assert!(result.release.len() <= most as usize);
        }
        // No remaining instance could be released in place of a busier released one.
        for (at, stays) in all.iter().enumerate().filter(|(at, _)| !distinct.contains(at)) {
            let busier = |&gone: &usize| {
                let gone = &all[gone];
                gone.configuration.meets(slo()) && stays.configuration.meets(slo())
                    && gone.load > stays.load && gone.configuration.rate() >= stays.configuration.rate()
            };
            prop_assert!(!result.release.iter().any(busier), "{at} stays");
        }
        // If the load alone is the reason, no remaining instance can be released.
        if result.because == Because::Load {
            let (mut stay, needed) = (all.clone(), peak.with_headroom(keep));
            for at in distinct.into_iter().rev() {
                stay.remove(at);
            }
            let capacities = (0..stay.len()).map(|at| capacity(&stay, &[at]));
            prop_assert!(capacities.into_iter().all(|left| left < needed));
        }
    }
}
