//! Placements on GPUs.

use proptest::prelude::*;
use tetris_scaler_core::{Placed, place, place_as_published};

use crate::placement::properties::scenarios;
use crate::placement::reckoning::reckon;
use crate::placement::scenario::{Scenario, demand, on_gpu};

const T4: &str = "Tesla T4";
const A100: &str = "NVIDIA A100-SXM4-80GB";

fn placed(model: usize, node: usize, gpu: usize, count: u32) -> Placed {
    Placed {
        model,
        node,
        configuration: 0,
        gpu: Some(gpu),
        count,
    }
}

fn model(rps: u64, tensors: &[(u8, u64)]) -> tetris_scaler_core::Demand {
    on_gpu(demand(rps, &[(1_000, 10, 10)], tensors), T4, 20, 250)
}

fn two_gpus() -> Scenario {
    Scenario::new(Vec::new(), &[(99_000, 9_000)])
        .gpu(0, T4, (200, 100), &[])
        .gpu(0, T4, (200, 100), &[])
}

#[test]
fn instances_share_the_tensors_of_one_gpu_up_to_its_time() {
    let scenario = Scenario {
        demands: vec![model(50, &[(0, 100)])],
        ..two_gpus()
    };
    let plan = place(&scenario.problem()).unwrap();
    // Four quarters of the first GPU, and the tensors once in the store and once on each GPU.
    assert_eq!(plan.placed, [placed(0, 0, 0, 4), placed(0, 0, 1, 1)]);
    assert_eq!(plan.memory_bytes, 5 * 30 + 3 * 100);
}

#[test]
fn a_gpu_with_the_tensors_comes_first_and_costs_only_what_is_missing() {
    let scenario = Scenario {
        demands: vec![model(10, &[(0, 90), (1, 10)])],
        ..Scenario::new(Vec::new(), &[(9_000, 900), (9_000, 900)])
            .gpu(0, T4, (200, 100), &[])
            .gpu(1, A100, (200, 100), &[0, 1])
            .gpu(1, T4, (200, 100), &[0])
    };
    let plan = place(&scenario.problem()).unwrap();
    assert_eq!(plan.placed, [placed(0, 1, 1, 1)]);
    // All of them in the store, and the small one to the device.
    assert_eq!(plan.memory_bytes, 30 + 100 + 10);
}

#[test]
fn variants_of_a_base_fit_on_a_gpu_that_has_no_room_for_two_models() {
    let base = [(0, 120)];
    let with = |name| [base[0], (name, 30)];
    let scenario = Scenario {
        demands: vec![model(10, &with(1)), model(10, &with(2))],
        ..Scenario::new(Vec::new(), &[(9_000, 900)]).gpu(0, T4, (180, 100), &[])
    };
    let plan = place(&scenario.problem()).unwrap();
    assert_eq!(plan.placed, [placed(0, 0, 0, 1), placed(1, 0, 0, 1)]);
    let apart = Scenario {
        demands: vec![model(10, &[(0, 150)]), model(10, &[(1, 150)])],
        ..scenario
    };
    let error = place(&apart.problem()).unwrap_err().to_string();
    assert!(error.contains("lacks 120 bytes of GPU memory"), "{error}");
}

#[test]
fn the_error_says_what_the_gpus_lack() {
    let scenario = |gpu: Option<(&str, (u64, u64))>| {
        let scenario = Scenario {
            demands: vec![model(10, &[(0, 100)])],
            ..Scenario::new(Vec::new(), &[(9_000, 900)])
        };
        match gpu {
            Some((kind, room)) => scenario.gpu(0, kind, room, &[]),
            None => scenario,
        }
    };
    for (gpu, says) in [
        (None, "lacks 1 GPU of the configuration's type"),
        (
            Some((A100, (200, 100))),
            "lacks 1 GPU of the configuration's type",
        ),
        (Some((T4, (99, 100))), "lacks 1 bytes of GPU memory"),
        (Some((T4, (200, 15))), "lacks 5 bytes of GPU memory"),
    ] {
        let error = place(&scenario(gpu).problem()).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
}

/// Type, room for tensors and private memory, and names of resident tensors.
type Gpu = (bool, (u64, u64), Vec<u8>);

fn gpus() -> impl Strategy<Value = Vec<Vec<Gpu>>> {
    let resident = proptest::collection::vec(0..6_u8, 0..4);
    let gpu = (any::<bool>(), (0..300_u64, 0..200_u64), resident);
    let of_node = proptest::collection::vec(gpu, 0..4);
    proptest::collection::vec(of_node, 6)
}

/// For each model: needs of a GPU (its type, private memory and time), or none.
fn needs() -> impl Strategy<Value = Vec<Option<(bool, u64, u32)>>> {
    let needs = (any::<bool>(), 0..80_u64, 1..=1_000_u32);
    proptest::collection::vec(proptest::option::weighted(0.7, needs), 5)
}

fn kind(is_t4: bool) -> &'static str {
    if is_t4 { T4 } else { A100 }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_gpu_gives_more_than_it_has(
        scenario in scenarios(5, 6, 40),
        gpus in gpus(),
        needs in needs(),
    ) {
        let mut scenario = scenario;
        for (node, gpus) in (0..scenario.nodes.len()).zip(gpus) {
            for (is_t4, room, resident) in gpus {
                // The second store's tensors have other names.
                let resident: Vec<u8> = resident.iter().flat_map(|&name| [name, 100 + name]).collect();
                scenario = scenario.gpu(node, kind(is_t4), room, &resident);
            }
        }
        scenario.current.clear();
        let demands = scenario.demands.into_iter().zip(needs);
        let demands = demands.map(|(demand, needs)| match needs {
            Some((is_t4, own, share)) => on_gpu(demand, kind(is_t4), own, share),
            None => demand,
        });
        scenario.demands = demands.collect();
        let published = place_as_published(&scenario.problem());
        match place(&scenario.problem()) {
            Ok(plan) => {
                prop_assert_eq!(reckon(&scenario, &plan.placed), Ok(plan.cost));
                prop_assert!(plan.lower_bound <= plan.cost);
                if let Ok(published) = published {
                    prop_assert_eq!(reckon(&scenario, &published.placed), Ok(published.cost));
                    prop_assert!(plan.cost <= published.cost);
                }
                // Carried out, it stays.
                scenario.current = plan.placed.clone();
                scenario.start_cost = 1;
                let second = place(&scenario.problem()).unwrap();
                prop_assert_eq!(reckon(&scenario, &second.placed), Ok(second.cost));
                prop_assert!(second.cost <= reckon(&scenario, &plan.placed).unwrap());
            }
            Err(error) => prop_assert!(published.is_err(), "{error}"),
        }
    }
}
