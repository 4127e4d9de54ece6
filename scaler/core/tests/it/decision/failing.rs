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
    let first = in_phase(Phase::Ready, "x");
    let two = [first.clone(), in_phase(Phase::Failing, "y")];
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
    let three = [first.clone(), in_phase(Phase::Ready, "w"), all[3].clone()];
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

/// Carries out decisions where whatever starts fails, and returns the starts and releases of each round.
fn rounds_of_failures(function: &FunctionView, mut all: Vec<InstanceView>) -> Vec<(u32, usize)> {
    let round = |number| {
        let decision = decided(function, &all);
        remove(&mut all, &decision);
        for at in 0..started(&decision) {
            all.push(in_phase(Phase::Failing, &format!("j-{number:03}-{at:03}")));
        }
        (started(&decision), decision.release.len())
    };
    (0..20).map(round).collect()
}

fn remove(all: &mut Vec<InstanceView>, decision: &FunctionDecision) {
    let mut gone = decision.release.clone();
    gone.sort_unstable();
    for at in gone.into_iter().rev() {
        all.remove(at);
    }
}

#[test]
fn failing_instances_stay_while_fewer_than_the_minimum_are_ready() {
    for (rps, min_instances, ready) in [(0, 2, 0), (0, 2, 1), (5, 5, 3), (25, 5, 4)] {
        let function = FunctionView {
            min_instances,
            ..serving(rps)
        };
        let all = (0..ready).map(|at| in_phase(Phase::Ready, &format!("r-{at}")));
        let rounds = rounds_of_failures(&function, all.collect());
        let starts: u32 = rounds.iter().map(|(starts, _)| starts).sum();
        assert_eq!(starts, 2 * min_instances - ready, "{rounds:?}");
        let released: usize = rounds.iter().map(|(_, released)| released).sum();
        assert_eq!(released, 0, "{rounds:?}");
    }
}

#[test]
fn no_more_instances_go_than_are_sound_beyond_the_minimum() {
    let without_room = |name| InstanceView {
        node: None,
        ..in_phase(Phase::Starting, name)
    };
    let function = FunctionView {
        min_instances: 2,
        ..serving(0)
    };
    let all = [
        in_phase(Phase::Ready, "r"),
        in_phase(Phase::Failing, "f"),
        without_room("v"),
        without_room("w"),
    ];
    assert_eq!(decided(&function, &all).release, [2]);
}

proptest! {
    #[test]
    fn what_fails_is_replaced_for_at_most_the_load_once_again(
        rps in 0..150_u64,
        min_instances in 0..6_u32,
        rounds in prop::collection::vec(any::<u64>(), 1..40),
    ) {
        let function = FunctionView { max_instances: 1_000, min_instances, ..serving(rps) };
        let mut all: Vec<InstanceView> = Vec::new();
        for (round, bits) in rounds.iter().enumerate() {
            let decision = decided(&function, &all);
            remove(&mut all, &decision);
            for number in 0..started(&decision) {
                all.push(in_phase(Phase::Starting, &format!("i-{round:03}-{number:03}")));
            }
            // Some that start fail, some become ready, and some that fail recover.
            for (at, view) in all.iter_mut().enumerate() {
                view.phase = match (bits >> (at % 32 * 2)) & 3 {
                    0 => Phase::Failing,
                    1 => Phase::Ready,
                    _ => view.phase,
                };
            }
        }
        // The load with the headroom of scaling in and a growth of 30 %, once again for what fails, and one of each.
        let most = (rps * 12 / 10).div_ceil(10);
        let most = (most + most * 3 / 10 + 2).max(u64::from(min_instances) + 1);
        prop_assert!(all.len() as u64 <= 2 * most, "{} for {rps}", all.len());
        // Whatever starts from now on fails, and then all do: each comes to rest.
        for still_ready in [true, false] {
            for entry in &mut all {
                if !still_ready || entry.phase == Phase::Starting {
                    entry.phase = Phase::Failing;
                }
            }
            let rounds = rounds_of_failures(&function, all.clone());
            let starts: u32 = rounds.iter().map(|(starts, _)| starts).sum();
            prop_assert!(all.len() as u64 + u64::from(starts) <= 3 * most, "{rounds:?} for {rps}");
            prop_assert_eq!(&rounds[15..], [(0, 0); 5], "{:?}", rounds);
        }
    }
}
