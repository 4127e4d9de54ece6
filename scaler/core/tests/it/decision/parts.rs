//! Tests of plans for more functions than one problem takes.

use std::collections::BTreeMap;

use tetris_scaler_core::{
    Decision, FunctionOutcome, FunctionView, InstanceView, Inventory, NodeView, Phase, Settings,
    View, decide,
};

use crate::decision::cases::{function, model, node, ready};

/// A core, ten bytes and ten requests per second.
const SMALL: (u64, u64, u32, u64) = (1_000, 10, 10, 1_000);

fn decided(
    functions: &[FunctionView],
    instances: &[InstanceView],
    nodes: &[NodeView],
    part_functions: u32,
) -> Decision {
    let view = View {
        functions,
        instances,
        nodes,
        inventory: &Inventory::default(),
    };
    let settings = Settings {
        part_functions,
        reserve_permille: 0,
        ..Settings::default()
    };
    decide(&view, &settings)
}

/// Functions in `families`, each with a tensor of its family.
fn functions(count: usize, families: usize) -> Vec<FunctionView> {
    let list = (0..count).map(|at| {
        let family = (at % families) as u8;
        function(model(&format!("f-{at}"), &[SMALL], &[(family, 100)]), 5)
    });
    list.collect()
}

/// Returns the nodes of all that start, by function.
fn starts(decision: &Decision) -> Vec<Vec<usize>> {
    let counts = decision.functions.iter().map(|function| {
        assert_eq!(function.outcome, FunctionOutcome::ScaledOut { started: 1 });
        let preferred = function.preferred.values().flatten();
        let planned = preferred.filter(|entry| entry.planned > 0);
        planned.map(|planned| planned.node).collect()
    });
    counts.collect()
}

#[test]
fn two_thousand_functions_that_start_at_once_all_get_a_node() {
    let all = functions(2_000, 40);
    let nodes: Vec<_> = (0..50)
        .map(|at| node(&format!("n{at:02}"), 40_000, 1_000))
        .collect();
    let decision = decided(&all, &[], &nodes, Settings::default().part_functions);
    let starts = starts(&decision);
    let mut used: BTreeMap<usize, u64> = BTreeMap::new();
    for nodes in &starts {
        let [node] = nodes[..] else {
            panic!("{nodes:?}");
        };
        *used.entry(node).or_default() += 1_000;
    }
    assert!(used.values().all(|&cpu| cpu <= 40_000), "{used:?}");
}

#[test]
fn a_later_part_uses_what_earlier_ones_leave_and_bring() {
    // Families of two functions, of which a node takes two families: their parts are known by the nodes.
    let all = functions(8, 4);
    let nodes: Vec<_> = (0..2)
        .map(|at| node(&format!("n{at}"), 4_000, 240))
        .collect();
    let decision = decided(&all, &[], &nodes, 2);
    let starts = starts(&decision);
    for family in 0..4 {
        assert_eq!(starts[family].len(), 1);
        assert_eq!(starts[family], starts[family + 4], "a family is together");
    }
    // One family in parts: each part shares the tensors that others bring to the only node with room for them.
    let all = functions(6, 1);
    let nodes = [node("a", 6_000, 160), node("b", 6_000, 99)];
    for part in [1, 2, 4] {
        let decision = decided(&all, &[], &nodes, part);
        assert_eq!(self::starts(&decision), vec![vec![0]; 6], "{part}");
    }
}

#[test]
fn tensors_on_their_way_take_room_though_the_plan_does_not_know_their_functions() {
    // Three functions load 100 bytes each on the first node, and a plan knows one other function.
    let mut all = functions(4, 4);
    all[0].load = Some(tetris_scaler_core::Rate::from_rps(5));
    let loading = (1..4).map(|function| InstanceView {
        function,
        phase: Phase::Starting,
        ..ready(&format!("i{function}"), 0, 0, 5)
    });
    let loading: Vec<_> = loading.collect();
    let nodes = [node("a", 9_000, 439), node("b", 9_000, 1_000)];
    let decision = decided(&all, &loading, &nodes, 1);
    let preferred = decision.functions[0].preferred[&0].iter();
    let planned: Vec<usize> = preferred
        .filter(|function| function.planned > 0)
        .map(|function| function.node)
        .collect();
    assert_eq!(planned, [1], "439 bytes hold 3 times 110, and not 110 more");
}
