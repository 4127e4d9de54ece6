//! Tests that failing instances are replaced, within limits, and go first once others serve.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tetris_scaler_core::{
    FunctionDecision, FunctionOutcome, FunctionView, InstanceView, Inventory, Phase, Settings,
    View, decide,
};

use crate::decision::cases::{function, model, node, ready};

/// A function with a configuration of one core and ten requests per second.
fn serving(rps: u64) -> FunctionView {
    function(model("m", &[(1_000, 10, 10, 1_000)], &[(1, 100)]), rps)
}

fn decided(function: &FunctionView, instances: &[InstanceView]) -> FunctionDecision {
    let nodes = [node("a", 100_000, 100_000), node("b", 100_000, 100_000)];
    let view = View {
        functions: std::slice::from_ref(function),
        instances,
        nodes: &nodes,
        inventory: &Inventory::default(),
    };
    decide(&view, &Settings::default()).functions.remove(0)
}

fn in_phase(phase: Phase, name: &str) -> InstanceView {
    InstanceView {
        phase,
        ..ready(name, 0, 0, 1)
    }
}

fn started(decision: &FunctionDecision) -> u32 {
    decision.start.values().sum()
}

#[test]
fn a_failing_instance_is_replaced_once() {
    // 25 with a tenth is 27.5: three instances.
    let mut all = vec![
        in_phase(Phase::Ready, "x"),
        in_phase(Phase::Ready, "y"),
        in_phase(Phase::Failing, "z"),
    ];
    let decision = decided(&serving(25), &all);
    assert_eq!(started(&decision), 1);
    assert_eq!(decision.outcome, FunctionOutcome::ScaledOut { started: 1 });
    assert_eq!(decision.replicas, BTreeMap::from([(0, 4)]), "it stays");
    assert_eq!(decision.release, []);
    all.push(in_phase(Phase::Starting, "w"));
    assert_eq!(started(&decided(&serving(25), &all)), 0);
}

#[test]
fn a_failing_instance_goes_once_others_carry_the_load_and_counts_once_it_is_ready() {
    let mut all = vec![
        in_phase(Phase::Ready, "w"),
        in_phase(Phase::Ready, "x"),
        in_phase(Phase::Ready, "y"),
        in_phase(Phase::Failing, "z"),
    ];
    let decision = decided(&serving(25), &all);
    assert_eq!(decision.release, [3]);
    assert_eq!(decision.replicas, BTreeMap::from([(0, 3)]));
    all[0].phase = Phase::Starting;
    let decision = decided(&serving(25), &all);
    assert_eq!(decision.release, [], "what starts may fail as well");
    all[3].phase = Phase::Ready;
    let decision = decided(&serving(25), &all);
    assert_eq!(decision.release, [0]);
}

#[test]
fn the_minimum_is_held_by_instances_that_serve() {
    let function = FunctionView {
        min_instances: 2,
        ..serving(0)
    };
    let one = in_phase(Phase::Ready, "x");
    let two = [one.clone(), in_phase(Phase::Failing, "y")];
    assert_eq!(started(&decided(&function, &two)), 1);
    let all = [
        in_phase(Phase::Failing, "v"),
        in_phase(Phase::Failing, "w"),
        in_phase(Phase::Failing, "x"),
        in_phase(Phase::Failing, "y"),
    ];
    assert_eq!(
        started(&decided(&function, &all)),
        0,
        "twice the minimum is enough"
    );
    let three = [one.clone(), in_phase(Phase::Ready, "w"), all[3].clone()];
    assert_eq!(decided(&function, &three).release, [2]);
}

#[test]
fn the_maximum_holds() {
    let function = FunctionView {
        max_instances: 3,
        ..serving(25)
    };
    let all = [
        in_phase(Phase::Ready, "x"),
        in_phase(Phase::Ready, "y"),
        in_phase(Phase::Failing, "z"),
    ];
    let decision = decided(&function, &all);
    assert_eq!(started(&decision), 0);
    assert!(
        matches!(decision.outcome, FunctionOutcome::AtMaximum { max_instances: 3, uncovered } if !uncovered.is_zero()),
        "{:?}",
        decision.outcome
    );
}

proptest! {
    #[test]
    fn what_fails_is_replaced_for_at_most_the_load_once_again(
        rps in 0..150_u64,
        rounds in prop::collection::vec(any::<u64>(), 1..40),
    ) {
        let function = FunctionView { max_instances: 1_000, ..serving(rps) };
        let mut all: Vec<InstanceView> = Vec::new();
        for (round, bits) in rounds.iter().enumerate() {
            let decision = decided(&function, &all);
            let mut gone = decision.release.clone();
            gone.sort_unstable();
            for at in gone.into_iter().rev() {
                all.remove(at);
            }
            for number in 0..started(&decision) {
                all.push(in_phase(Phase::Starting, &format!("i-{round:03}-{number:03}")));
            }
            // Some that start fail, some become ready, and some that fail recover.
            for (at, one) in all.iter_mut().enumerate() {
                one.phase = match (bits >> (at % 32 * 2)) & 3 {
                    0 => Phase::Failing,
                    1 => Phase::Ready,
                    _ => one.phase,
                };
            }
        }
        // The load with the headroom of scaling in and a growth of 30 %, once again for what fails, and one of each.
        let most = (rps * 12 / 10).div_ceil(10);
        prop_assert!(all.len() as u64 <= 2 * (most + most * 3 / 10 + 2), "{} for {rps}", all.len());
        for one in &mut all {
            one.phase = Phase::Failing;
        }
        for round in 0..20 {
            let decision = decided(&function, &all);
            for number in 0..started(&decision) {
                all.push(in_phase(Phase::Failing, &format!("j-{round:03}-{number:03}")));
            }
        }
        prop_assert!(all.len() as u64 <= 3 * (most + most * 3 / 10 + 2), "{} for {rps}", all.len());
        prop_assert_eq!(started(&decided(&function, &all)), 0);
    }
}
