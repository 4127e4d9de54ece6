//! Tests of placements with results calculated by hand.

use tetris_scaler_core::{Placed, PlacementError, Rate, Slo, place, place_as_published};

use crate::placement::scenario::{Scenario, demand};

fn one(model: usize, node: usize, configuration: usize, count: u32) -> Placed {
    Placed {
        model,
        node,
        configuration,
        gpu: None,
        count,
    }
}

#[test]
fn a_second_instance_costs_only_its_own_memory_where_the_first_is() {
    let model = demand(20, &[(1_000, 10, 10)], &[(0, 100)]);
    let plan = place(&Scenario::new(vec![model], &[(9_000, 500), (9_000, 500)]).problem()).unwrap();
    assert_eq!(plan.placed, [one(0, 0, 0, 2)]);
    assert_eq!((plan.memory_bytes, plan.lower_bound), (120, 120));
    assert_eq!(plan.rates, [Rate::from_rps(20)]);
}

#[test]
fn variants_go_where_their_base_is() {
    // Two models of 100 bytes share 90. Either node has room for both.
    let models = vec![
        demand(10, &[(1_000, 10, 10)], &[(0, 90), (1, 10)]),
        demand(10, &[(1_000, 10, 10)], &[(0, 90), (2, 10)]),
    ];
    let scenario = Scenario::new(models, &[(9_000, 500), (9_000, 500)]);
    let plan = place(&scenario.problem()).unwrap();
    assert_eq!(plan.memory_bytes, 90 + 2 * (10 + 10));
    // The second node has the base, so the variants add only their own parts.
    let scenario = scenario.resident(1, &[(0, 90)]);
    let plan = place(&scenario.problem()).unwrap();
    assert_eq!(plan.placed, [one(0, 1, 0, 1), one(1, 1, 0, 1)]);
    assert_eq!((plan.memory_bytes, plan.lower_bound), (40, 40));
}

#[test]
fn memory_that_is_shared_makes_small_instances_cheap() {
    // Counting all memory, 30 per second cost 1 x 160 or 3 x 110; on one node 100 + 60 or 100 + 3 *
    // 10.
    let model = demand(30, &[(1_000, 60, 30), (1_000, 10, 10)], &[(0, 100)]);
    let scenario = Scenario::new(vec![model], &[(9_000, 500)]);
    let published = place_as_published(&scenario.problem()).unwrap();
    assert_eq!(
        (published.placed, published.memory_bytes),
        (vec![one(0, 0, 0, 1)], 160)
    );
    let plan = place(&scenario.problem()).unwrap();
    assert_eq!(
        (plan.placed, plan.memory_bytes),
        (vec![one(0, 0, 1, 3)], 130)
    );
}

#[test]
fn alpha_weighs_cpu_against_memory() {
    let model = demand(10, &[(4_000, 10, 10), (1_000, 40, 10)], &[]);
    let mut scenario = Scenario::new(vec![model], &[(9_000, 500)]);
    assert_eq!(
        place(&scenario.problem()).unwrap().placed,
        [one(0, 0, 0, 1)]
    );
    scenario.set_alpha(1);
    let plan = place(&scenario.problem()).unwrap();
    assert_eq!(plan.placed, [one(0, 0, 1, 1)]);
    assert_eq!((plan.memory_bytes, plan.cost), (40, 1_040));
}

#[test]
fn what_runs_is_moved_only_for_more_than_a_start_is_worth() {
    // It costs 130 on the current node, and 30 on the other, which has the tensor.
    let model = demand(10, &[(1_000, 30, 10)], &[(0, 100)]);
    let mut scenario =
        Scenario::new(vec![model], &[(9_000, 500), (9_000, 500)]).resident(1, &[(0, 100)]);
    scenario.current = vec![one(0, 0, 0, 1)];
    for (start_cost, node, started) in [(99, 1, 1), (100, 0, 0), (101, 0, 0)] {
        scenario.start_cost = start_cost;
        let plan = place(&scenario.problem()).unwrap();
        assert_eq!(plan.placed, [one(0, node, 0, 1)], "{start_cost}");
        assert_eq!((plan.started, plan.stopped), (started, started));
    }
    // Without load it is stopped, at any cost of a start.
    scenario.demands[0].load = Rate::ZERO;
    let plan = place(&scenario.problem()).unwrap();
    assert_eq!((plan.placed, plan.started, plan.stopped), (vec![], 0, 1));
}

#[test]
fn an_objective_that_nothing_meets_is_explained() {
    let mut model = demand(10, &[(1_000, 30, 10)], &[(7, 100)]);
    model.slo = Slo::try_from_us(999_999).unwrap();
    let error = place(&Scenario::new(vec![model], &[(9_000, 500)]).problem()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "model of 7: no configuration meets an objective of 999999 us; the smallest that one meets is 1000000 us"
    );
}

#[test]
fn a_model_that_no_node_can_hold_is_told_from_a_cluster_that_is_full() {
    let model = |rps| demand(rps, &[(2_000, 30, 10)], &[(7, 100)]);
    let small = Scenario::new(vec![model(10)], &[(9_000, 120), (1_500, 500)]);
    for error in [
        place(&small.problem()),
        place_as_published(&small.problem()),
    ] {
        assert_eq!(
            error.unwrap_err().to_string(),
            "model of 7: no node is large enough; node n0 comes closest, and lacks 10 bytes of memory"
        );
    }
    // The first has CPU for two instances, the second memory for one; the load needs four.
    let full = Scenario::new(vec![model(40)], &[(5_000, 500), (9_000, 150)]);
    for error in [place(&full.problem()), place_as_published(&full.problem())] {
        let error = error.unwrap_err();
        let PlacementError::OutOfRoom { node, missing, .. } = &error else {
            panic!("{error}")
        };
        assert_eq!(
            (node.as_str(), missing.cpu_millis, missing.memory_bytes),
            ("n1", 0, 10)
        );
        assert!(
            error
                .to_string()
                .starts_with("model of 7: no room for 10 requests/s"),
            "{error}"
        );
    }
}

#[test]
fn a_model_that_finds_no_room_goes_first() {
    // The expensive model fits on either node. The cheap one fits only on the small node, or
    // without the expensive one.
    let models = vec![
        demand(10, &[(1_000, 300, 10)], &[]),
        demand(10, &[(3_000, 200, 10)], &[(1, 90)]),
    ];
    let scenario = Scenario::new(models, &[(3_000, 300), (1_000, 300)]);
    let plan = place(&scenario.problem()).unwrap();
    assert_eq!(plan.placed, [one(0, 1, 0, 1), one(1, 0, 0, 1)]);
}

fn two_models() -> Scenario {
    let model = || demand(10, &[(1_000, 30, 10)], &[(7, 100)]);
    Scenario::new(vec![model(), model()], &[(9_000, 500)])
}

#[test]
fn what_runs_must_be_known() {
    for (placed, says) in [
        (
            one(2, 0, 0, 1),
            "running instance 0: found model 2, expected an index below 2",
        ),
        (
            one(0, 1, 0, 1),
            "running instance 0: found node 1, expected an index below 1",
        ),
        (
            one(0, 0, 1, 1),
            "running instance 0: found configuration 1, expected an index below 1",
        ),
    ] {
        let mut scenario = two_models();
        scenario.current = vec![placed];
        assert_eq!(place(&scenario.problem()).unwrap_err().to_string(), says);
    }
}

#[test]
fn nonsense_is_refused_by_name() {
    type Edit = fn(&mut Scenario);
    let edits: [(&str, Edit); 5] = [
        ("no node takes new instances", |all| all.nodes.clear()),
        ("another size", |all| {
            all.demands[1] = demand(10, &[(1_000, 30, 10)], &[(7, 101)]);
        }),
        ("`alpha_bytes_per_millicore` is", |all| {
            all.set_alpha(u64::MAX);
        }),
        ("`start_cost_bytes` is", |all| all.start_cost = u64::MAX),
        ("more than the 20000 instances", |all| {
            all.demands[1].load = Rate::from_micro_rps(u64::MAX);
        }),
    ];
    for (says, edit) in edits {
        let mut scenario = two_models();
        edit(&mut scenario);
        let error = place(&scenario.problem()).unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
    }
}

#[test]
fn extreme_numbers_do_not_overflow() {
    let most = 1 << 50;
    let model = |name| demand(4_000, &[(10_000_000, most, 4_096)], &[(name, u64::MAX - 5)]);
    let mut scenario = Scenario::new(vec![model(1), model(2)], &[(u64::MAX, u64::MAX); 3])
        .resident(0, &[(1, u64::MAX - 5)])
        .resident(1, &[(2, u64::MAX - 5)]);
    scenario.set_alpha(1 << 40);
    scenario.start_cost = most;
    scenario.current = vec![one(0, 0, 0, u32::MAX), one(0, 0, 0, u32::MAX)];
    let plan = place(&scenario.problem()).unwrap();
    assert_eq!(plan.placed, [one(0, 0, 0, 1), one(1, 1, 0, 1)]);
    assert_eq!(plan.memory_bytes, 2 * u128::from(most));
    assert_eq!(plan.started, 1);
}
