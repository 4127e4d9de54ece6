//! Tests of decisions with results calculated by hand.

use std::collections::BTreeMap;
use std::sync::Arc;

use tetris_scaler_core::{
    Decision, FunctionOutcome, FunctionView, InstanceView, Inventory, NodeView, Phase, Rate,
    ScaleInPolicy, Settings, Slo, View, decide,
};

use crate::decision::cases::{function, model, node, ready, tensor};

/// One core, ten bytes, ten requests per second.
const SMALL: (u64, u64, u32, u64) = (1_000, 10, 10, 1_000);
/// Four cores, fifteen bytes, forty requests per second.
const LARGE: (u64, u64, u32, u64) = (4_000, 15, 40, 1_000);

fn settings() -> Settings {
    Settings {
        start_cost_bytes: 1,
        ..Settings::default()
    }
}

fn decided(
    functions: &[FunctionView],
    instances: &[InstanceView],
    nodes: &[NodeView],
    inventory: &Inventory,
) -> Decision {
    let view = View {
        functions,
        instances,
        nodes,
        inventory,
    };
    decide(&view, &settings())
}

fn on_empty(
    functions: &[FunctionView],
    instances: &[InstanceView],
    nodes: &[NodeView],
) -> Decision {
    decided(functions, instances, nodes, &Inventory::default())
}

fn one(rps: u64) -> FunctionView {
    function(model("m", &[SMALL], &[(1, 100)]), rps)
}

fn two_nodes() -> Vec<NodeView> {
    vec![node("a", 10_000, 1_000), node("b", 10_000, 1_000)]
}

fn starting(name: &str, configuration: usize) -> InstanceView {
    InstanceView {
        phase: Phase::Starting,
        node: None,
        ..ready(name, configuration, 0, 0)
    }
}

#[test]
fn a_load_above_zero_starts_what_carries_it_with_headroom_and_only_once() {
    // 25 plus a fifth is 30.
    let decision = on_empty(&[one(25)], &[], &two_nodes());
    let first = &decision.functions[0];
    assert_eq!(first.start, BTreeMap::from([(0, 3)]));
    assert_eq!(first.outcome, FunctionOutcome::ScaledOut { started: 3 });
    let planned: u32 = first.preferred[&0]
        .iter()
        .map(|function| function.planned)
        .sum();
    assert_eq!(
        (planned, first.preferred[&0][0].planned),
        (3, 3),
        "on one node"
    );
    let asked = ["x", "y", "z"].map(|name| starting(name, 0));
    let again = &on_empty(&[one(25)], &asked, &two_nodes()).functions[0];
    assert_eq!(
        (&again.start, &again.replicas),
        (&BTreeMap::new(), &first.replicas)
    );
    assert_eq!(again.outcome, FunctionOutcome::Steady);
}

#[test]
fn instances_start_where_the_tensors_are() {
    let mut inventory = Inventory::default();
    inventory.set_node("b", &[tensor(1)]).unwrap();
    let decision = decided(&[one(5)], &[], &two_nodes(), &inventory);
    let preferred = &decision.functions[0].preferred[&0];
    assert_eq!((preferred[0].node, preferred[0].score), (1, 1_000));
    assert!(preferred[1].node == 0 && preferred[1].score < 200);
}

#[test]
fn nothing_goes_before_its_time_and_the_least_loaded_first() {
    let all = [
        ready("x", 0, 0, 8),
        ready("y", 0, 0, 1),
        ready("z", 0, 1, 3),
    ];
    for (rps, peak, released) in [
        (8, Some(8), vec![1, 2]),
        (8, Some(16), vec![1]),
        (8, None, vec![]),
    ] {
        let view = FunctionView {
            peak: peak.map(Rate::from_rps),
            ..one(rps)
        };
        let first = &on_empty(&[view], &all, &two_nodes()).functions[0];
        assert_eq!(first.release, released);
        assert_eq!(first.replicas[&0] as usize, 3 - released.len());
        assert_eq!(first.ranking.len(), 3);
        assert!(first.ranking.starts_with(&released));
    }
}

#[test]
fn no_load_for_a_window_and_no_minimum_is_no_instance() {
    let all = [ready("x", 0, 0, 0), starting("y", 0)];
    let first = &on_empty(&[one(0)], &all, &two_nodes()).functions[0];
    assert_eq!(first.replicas, BTreeMap::from([(0, 0)]));
    let kept = FunctionView {
        min_instances: 1,
        ..one(0)
    };
    let first = &on_empty(&[kept], &all, &two_nodes()).functions[0];
    assert_eq!(
        (&first.release, first.replicas[&0]),
        (&vec![1], 1),
        "the ready one stays"
    );
}

#[test]
fn an_unknown_load_changes_nothing_but_for_the_minimum() {
    let blind = FunctionView {
        load: None,
        min_instances: 2,
        ..one(0)
    };
    let all = [ready("x", 0, 0, 0)];
    let first = &on_empty(std::slice::from_ref(&blind), &all, &two_nodes()).functions[0];
    assert_eq!(first.outcome, FunctionOutcome::LoadUnknown { started: 1 });
    let all: Vec<_> = ["x", "y", "z"].map(|name| ready(name, 0, 0, 0)).into();
    let first = &on_empty(&[blind], &all, &two_nodes()).functions[0];
    assert_eq!(
        (first.outcome.clone(), first.replicas[&0]),
        (FunctionOutcome::LoadUnknown { started: 0 }, 3)
    );
}

#[test]
fn four_small_ones_give_way_to_a_large_one_when_that_is_ready() {
    let view = |rps| FunctionView {
        consolidate: true,
        ..function(model("m", &[SMALL, LARGE], &[(1, 100)]), rps)
    };
    let mut all: Vec<_> = ["s", "t", "u", "v"].map(|name| ready(name, 0, 0, 7)).into();
    let first = &on_empty(&[view(30)], &all, &two_nodes()).functions[0];
    assert_eq!(first.start, BTreeMap::from([(1, 1)]));
    assert_eq!((first.retiring.len(), first.release.len()), (4, 0));
    assert_eq!(first.replicas, BTreeMap::from([(0, 4), (1, 1)]));
    assert_eq!(
        first.preferred[&1][0].node, 0,
        "where the tensors are needed anyway"
    );
    // Executed: nothing changes until the large one is ready.
    for entry in &mut all {
        entry.retiring = true;
    }
    all.push(starting("large", 1));
    let wait = &on_empty(&[view(30)], &all, &two_nodes()).functions[0];
    assert_eq!((wait.retiring.len(), &wait.replicas), (4, &first.replicas));
    assert_eq!(
        wait.outcome,
        FunctionOutcome::Consolidating {
            starting: 1,
            retiring: 4
        }
    );
    // A rising load needs them again.
    let more = &on_empty(&[view(60)], &all, &two_nodes()).functions[0];
    assert_eq!((more.retiring.len(), more.start.len()), (0, 0));
    all[4] = ready("large", 1, 0, 0);
    let done = &on_empty(&[view(30)], &all, &two_nodes()).functions[0];
    assert_eq!(
        (done.release.len(), &done.replicas),
        (4, &BTreeMap::from([(0, 0), (1, 1)]))
    );
}

#[test]
fn a_steady_function_consolidates_beside_one_that_grows_where_there_is_room_for_both() {
    let steady = FunctionView {
        consolidate: true,
        ..function(model("m", &[SMALL, LARGE], &[(1, 100)]), 30)
    };
    let all: Vec<_> = ["s", "t", "u", "v"].map(|name| ready(name, 0, 0, 7)).into();
    let nodes = [node("a", 10_000, 1_000)];
    // Of ten cores four are in use, and the large instance needs four more.
    for (rps, starts, moves) in [(10, 2, 1), (20, 3, 0), (100, 11, 0)] {
        let growing = function(model("n", &[SMALL], &[(2, 100)]), rps);
        let decision = on_empty(&[steady.clone(), growing], &all, &nodes);
        let [steady, growing] = &decision.functions[..] else {
            panic!("{decision:?}");
        };
        assert_eq!(growing.start, BTreeMap::from([(0, starts)]));
        assert_eq!(steady.start.get(&1).copied().unwrap_or(0), moves, "{rps}");
        assert_eq!(steady.retiring.len(), 4 * moves as usize, "{rps}");
    }
}

#[test]
fn a_replacement_without_room_is_taken_back() {
    let view = FunctionView {
        consolidate: false,
        ..function(model("m", &[SMALL, LARGE], &[(1, 100)]), 30)
    };
    let mut all: Vec<_> = ["s", "t", "u", "v"].map(|name| ready(name, 0, 0, 7)).into();
    for entry in &mut all {
        entry.retiring = true;
    }
    all.push(starting("large", 1));
    let (small, large) = (SMALL.0, LARGE.0);
    let nodes = |free| {
        let cpu_millis = 4 * small + free;
        vec![node("n0", cpu_millis, 10_000)]
    };
    let waits = &on_empty(std::slice::from_ref(&view), &all, &nodes(large)).functions[0];
    assert_eq!(waits.retiring.len(), 4, "it has room: {waits:?}");
    let back = &on_empty(std::slice::from_ref(&view), &all, &nodes(large - 1)).functions[0];
    assert_eq!((&back.release, &back.retiring), (&vec![4], &Vec::new()));
    assert_eq!(back.replicas, BTreeMap::from([(0, 4), (1, 0)]));
    // It runs on a node that is full because of it.
    all[4].node = Some(0);
    let starts = &on_empty(&[view], &all, &nodes(large)).functions[0];
    assert_eq!(starts.retiring.len(), 4, "{starts:?}");
}

#[test]
fn a_saving_below_the_threshold_is_left_alone() {
    let view = FunctionView {
        consolidate: true,
        ..function(model("m", &[SMALL, LARGE], &[(1, 1_000_000)]), 30)
    };
    let all: Vec<_> = ["s", "t", "u", "v"].map(|name| ready(name, 0, 0, 7)).into();
    let nodes = [node("a", 10_000, 9_000_000)];
    assert_eq!(
        on_empty(&[view], &all, &nodes).functions[0].outcome,
        FunctionOutcome::Steady
    );
}

#[test]
fn a_maximum_gets_the_fastest_configurations_and_says_so() {
    let view = FunctionView {
        max_instances: 2,
        ..function(model("m", &[SMALL, LARGE], &[(1, 100)]), 100)
    };
    let nodes = [node("a", 100_000, 9_000)];
    let first = &on_empty(&[view], &[], &nodes).functions[0];
    assert_eq!(first.start, BTreeMap::from([(1, 2)]));
    let uncovered = Rate::from_rps(30);
    assert_eq!(
        first.outcome,
        FunctionOutcome::AtMaximum {
            max_instances: 2,
            uncovered
        }
    );
}

/// Of deploy/tests/cluster/function: 64 MiB for 20 requests per second, or 256 MiB for 40. At most four.
fn held(rps: u64) -> FunctionView {
    let rows = [(10, 64 << 20, 20, 50), (20, 256 << 20, 40, 50)];
    let mut busy = model("held", &rows, &[(1, 1 << 20)]);
    busy.slo = Slo::try_from_us(100_000).unwrap();
    FunctionView {
        max_instances: 4,
        scale_in: ScaleInPolicy::default(),
        ..function(busy, rps)
    }
}

#[test]
fn headroom_alone_is_no_reason_for_dearer_instances_under_a_maximum() {
    let nodes = [node("a", 4_000, 16 << 30)];
    // 30 and a fifth are 36: two.
    let first = &on_empty(&[held(30)], &[], &nodes).functions[0];
    assert_eq!(first.start, BTreeMap::from([(0, 2)]));
    // 70 and a twentieth are 73.5, which four carry. 70 and a fifth are 84: five, of which there may be four.
    let two = [ready("x", 0, 0, 30), ready("y", 0, 0, 30)];
    let grown = &on_empty(&[held(70)], &two, &nodes).functions[0];
    assert_eq!(grown.replicas, BTreeMap::from([(0, 4)]));
    assert_eq!(grown.outcome, FunctionOutcome::ScaledOut { started: 2 });
    let four = ["v", "w", "x", "y"].map(|name| ready(name, 0, 0, 17));
    let rest = &on_empty(&[held(70)], &four, &nodes).functions[0];
    assert_eq!(
        (&rest.replicas, &rest.outcome),
        (&grown.replicas, &FunctionOutcome::Steady)
    );
    // The same without a plan, as there is no node to plan with.
    let alone = &on_empty(&[held(70)], &two_elsewhere(), &[]).functions[0];
    assert_eq!(alone.replicas, BTreeMap::from([(0, 4)]));
    // 80 and a twentieth are more than four of the small ones carry.
    let large = &on_empty(&[held(80)], &two, &nodes).functions[0];
    assert_eq!(large.replicas, BTreeMap::from([(0, 2), (1, 2)]));
}

fn two_elsewhere() -> [InstanceView; 2] {
    ["x", "y"].map(|name| InstanceView {
        node: None,
        ..ready(name, 0, 0, 30)
    })
}

#[test]
fn one_functions_trouble_does_not_stop_another() {
    let tight = model("tight", &[(1_000, 10, 2, 2_000)], &[(2, 10)]);
    let huge = model("huge", &[(1_000, 5_000, 10, 1_000)], &[(3, 10)]);
    let mut nothing = model("nothing", &[SMALL], &[(4, 10)]);
    nothing.allowed = vec![7];
    let all = [tight, huge, nothing].map(|model| function(model, 5));
    let all = [&all[..], &[one(5)]].concat();
    let decision = on_empty(&all, &[], &two_nodes());
    let says: Vec<String> = decision
        .functions
        .iter()
        .map(|function| function.outcome.to_string())
        .collect();
    assert!(
        says[0].contains("the smallest that one meets is 2000000 us"),
        "{}",
        says[0]
    );
    assert!(
        says[1].contains("node a comes closest, and lacks 4010 bytes of memory"),
        "{}",
        says[1]
    );
    assert!(
        says[2].contains("none of the allowed configurations"),
        "{}",
        says[2]
    );
    // An instance that fits nowhere is still requested, so that a cluster autoscaler sees it.
    let started: Vec<u32> = decision
        .functions
        .iter()
        .map(|function| function.start.values().sum())
        .collect();
    assert_eq!(started, [0, 1, 0, 1]);
}

#[test]
fn a_full_cluster_is_told_from_small_nodes() {
    let nodes = [node("a", 2_500, 1_000)];
    let first = &on_empty(&[one(50)], &[], &nodes).functions[0];
    let FunctionOutcome::OutOfRoom { node, started, .. } = &first.outcome else {
        panic!("{:?}", first.outcome);
    };
    assert_eq!((node.as_str(), *started, first.start[&0]), ("a", 6, 6));
    let none = &on_empty(&[one(50)], &[], &[]).functions[0];
    assert!(
        none.outcome.to_string().contains("no node takes instances"),
        "{}",
        none.outcome
    );
}

#[test]
fn headroom_alone_is_no_reason_to_wait_for_room() {
    // 27 plus a tenth is 29.7: three. Plus a fifth is 32.4: four, for which there is no room.
    let nodes = [node("a", 3_500, 1_000)];
    let first = &on_empty(&[one(27)], &[], &nodes).functions[0];
    assert_eq!(first.outcome, FunctionOutcome::ScaledOut { started: 3 });
}

#[test]
fn cordoned_nodes_get_nothing_and_tensors_may_have_room_of_their_own() {
    let mut nodes = two_nodes();
    nodes[0].accepts_new = false;
    let first = &on_empty(&[one(5)], &[], &nodes).functions[0];
    assert!(
        first.preferred[&0]
            .iter()
            .all(|function| function.node == 1)
    );
    // 100 bytes of tensors do not fit into a store of 99, with any free memory.
    nodes[1].tensor_bytes = Some(99);
    let first = &on_empty(&[one(5)], &[], &nodes).functions[0];
    let says = first.outcome.to_string();
    assert!(
        says.contains("node b comes closest, and lacks 1 bytes of room for tensors"),
        "{says}"
    );
    // Nor into the function's store, if that has less room than the node, whatever others have.
    nodes[1].tensor_bytes = Some(1_000);
    nodes[1].stores = [("blue".to_owned(), 98), ("green".to_owned(), 900)].into();
    let first = &on_empty(&[one(5)], &[], &nodes).functions[0];
    let says = first.outcome.to_string();
    assert!(says.contains("lacks 2 bytes of room for tensors"), "{says}");
    nodes[1].stores.remove("blue");
    // With room in the store, memory need not hold them as well.
    nodes[1].tensor_bytes = Some(100);
    nodes[1].free.memory_bytes = 10;
    let first = &on_empty(&[one(5)], &[], &nodes).functions[0];
    assert_eq!(first.outcome, FunctionOutcome::ScaledOut { started: 1 });
}

#[test]
fn what_is_out_of_date_goes_when_others_carry_the_load() {
    let old = |name| InstanceView {
        configuration: None,
        ..ready(name, 0, 0, 9)
    };
    let first = &on_empty(&[one(5)], &[old("x")], &two_nodes()).functions[0];
    assert_eq!((first.start[&0], first.release.len()), (1, 0));
    let wait = &on_empty(&[one(5)], &[old("x"), starting("y", 0)], &two_nodes()).functions[0];
    assert_eq!(wait.outcome, FunctionOutcome::Renewing { outdated: 1 });
    let done = &on_empty(&[one(5)], &[old("x"), ready("y", 0, 0, 0)], &two_nodes()).functions[0];
    assert_eq!(done.release, [0]);
    // If the maximum leaves no room beside it, it goes first.
    let mut narrow = one(5);
    narrow.max_instances = 1;
    let first = &on_empty(&[narrow], &[old("x")], &two_nodes()).functions[0];
    assert_eq!(first.outcome, FunctionOutcome::MakingRoom { released: 1 });
    assert_eq!(first.release, [0]);
}

#[test]
fn a_configuration_that_is_not_allowed_any_more_is_replaced() {
    let mut view = function(model("m", &[SMALL, LARGE], &[(1, 100)]), 5);
    Arc::make_mut(&mut view.model).allowed = vec![1];
    let first = &on_empty(&[view], &[ready("x", 0, 0, 5)], &two_nodes()).functions[0];
    assert_eq!(first.replicas, BTreeMap::from([(0, 1), (1, 1)]));
}

#[test]
fn totals_count_a_nodes_tensors_once_and_have_a_bound() {
    let functions = [one(25), one(5)];
    let view = View {
        functions: &functions,
        instances: &[],
        nodes: &two_nodes(),
        inventory: &Inventory::default(),
    };
    let decision = decide(&view, &settings());
    let totals = decision.totals(&view);
    assert_eq!((totals.instances, totals.cpu_millis), (4, 4_000));
    assert_eq!((totals.memory_bytes, totals.lower_bound), (140, 140));
}

#[test]
fn a_function_that_grows_grows_by_a_part_of_what_it_has() {
    let ten: Vec<InstanceView> = (0..10)
        .map(|number| ready(&format!("i{number}"), 0, 0, 9))
        .collect();
    let nodes = [node("a", 100_000, 10_000)];
    // 95 and a fifth are 114, for which two more would do; 30 % of 100 are three more.
    let decision = on_empty(&[one(95)], &ten, &nodes);
    assert_eq!(decision.functions[0].start, BTreeMap::from([(0, 3)]));
    let capped = FunctionView {
        max_instances: 12,
        ..one(95)
    };
    let decision = on_empty(&[capped], &ten, &nodes);
    assert_eq!(
        decision.functions[0].start,
        BTreeMap::from([(0, 1)]),
        "beside the maximum only what the load needs"
    );
}
