//! Invariants of every placement.

use proptest::prelude::*;
use proptest::sample::Index;
use tetris_scaler_core::{Demand, Placed, place, place_as_published};

use crate::placement::reckoning::{reckon, started};
use crate::placement::scenario::{Scenario, demand};

/// Load, rows and tensors of a demand.
type Wanted = (u64, Vec<(u64, u64, u32)>, Vec<(u8, u64)>);

/// Returns the name of a tensor in one of two stores, which have none in common.
fn in_store(store: u8, name: u8) -> u8 {
    store * 100 + name
}

fn demands(most: u64) -> impl Strategy<Value = Wanted> {
    let row = (1..5_u64, 1..60_u64, 1..12_u32);
    let rows = proptest::collection::vec(row, 1..5);
    let tensors = proptest::collection::btree_set(0..6_u8, 0..5);
    (0..most, rows, tensors).prop_map(|(rps, mut rows, tensors)| {
        rows.sort_unstable_by_key(|row| (row.0, row.2));
        rows.dedup_by_key(|row| (row.0, row.2));
        let rows: Vec<_> = rows
            .iter()
            .map(|row| (row.0 * 1_000, row.1, row.2))
            .collect();
        let tensors: Vec<_> = tensors
            .iter()
            .map(|&name| (name, u64::from(name) * 15 + 5))
            .collect();
        (rps, rows, tensors)
    })
}

/// A running instance, as indices into future choices.
type Pick = (Index, Index, Index, u32);

fn picks() -> impl Strategy<Value = Vec<Pick>> {
    let index = any::<Index>;
    proptest::collection::vec((index(), index(), index(), 1..3_u32), 0..4)
}

impl Scenario {
    fn with_running(mut self, picks: Vec<Pick>) -> Self {
        for (model, node, configuration, count) in picks {
            let model = model.index(self.demands.len());
            let all = self.demands[model].profile.configurations().len();
            self.current.push(Placed {
                model,
                node: node.index(self.nodes.len()),
                configuration: configuration.index(all),
                gpu: None,
                count,
            });
        }
        self
    }
}

pub fn scenarios(models: usize, nodes: usize, rps: u64) -> impl Strategy<Value = Scenario> {
    let resident = proptest::collection::btree_set(0..6_u8, 0..4);
    // Some nodes have separate room for tensors, and some take no new instances.
    let pool = proptest::option::weighted(0.3, 0..300_u64);
    let node = (
        1..25_u64,
        50..600_u64,
        resident,
        pool,
        proptest::bool::weighted(0.9),
    );
    let demands = proptest::collection::vec(demands(rps), 1..=models);
    let nodes = proptest::collection::vec(node, 1..=nodes);
    // Mostly alpha is 0: an instance has thousands of millicores but only dozens of bytes.
    let alpha = (0..20_u64).prop_map(|alpha| alpha / 19);
    let start_cost = prop_oneof![Just(0), 0..80_u64];
    let all = (demands, nodes, picks(), alpha, start_cost);
    all.prop_map(|(demands, nodes, picks, alpha, start_cost)| {
        let sizes: Vec<_> = nodes.iter().map(|node| (node.0 * 1_000, node.1)).collect();
        let demands = demands.into_iter().zip([0_u8, 1].into_iter().cycle());
        let demands = demands.map(|((rps, rows, tensors), store)| {
            let stored = tensors
                .iter()
                .map(|&(name, bytes)| (in_store(store, name), bytes));
            let stored: Vec<_> = stored.collect();
            Demand {
                store: store.into(),
                ..demand(rps, &rows, &stored)
            }
        });
        let mut scenario = Scenario::new(demands.collect(), &sizes).with_running(picks);
        scenario.set_alpha(alpha);
        scenario.start_cost = start_cost;
        for (at, (_, _, resident, pool, accepts_new)) in nodes.iter().enumerate() {
            scenario.nodes[at].tensor_bytes = *pool;
            // The second store has less than the node.
            let less = pool.map(|pool| (1, pool / 2));
            scenario.nodes[at].stores = less.into_iter().collect();
            scenario.nodes[at].accepts_new = *accepts_new;
            let stored = resident.iter().map(|&name| (in_store(name % 2, name), 0));
            let tensors: Vec<_> = stored.collect();
            scenario = scenario.resident(at, &tensors);
        }
        scenario
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_placement_is_allowed_costs_what_it_says_and_beats_the_published_way(
        scenario in scenarios(5, 6, 60),
    ) {
        let published = place_as_published(&scenario.problem());
        match place(&scenario.problem()) {
            Ok(plan) => {
                prop_assert_eq!(reckon(&scenario, &plan.placed), Ok(plan.cost));
                prop_assert_eq!(started(&scenario, &plan.placed, None), plan.started);
                let running: u64 = scenario.current.iter().map(|current| u64::from(current.count)).sum();
                let all: u64 = plan.placed.iter().map(|placed| u64::from(placed.count)).sum();
                prop_assert_eq!(running + plan.started, all + plan.stopped);
                prop_assert!(plan.lower_bound <= plan.cost);
                if let Ok(published) = published {
                    prop_assert_eq!(reckon(&scenario, &published.placed), Ok(published.cost));
                    prop_assert!(plan.cost <= published.cost);
                }
            }
            // If the published algorithm finds room, so does this one.
            Err(error) => prop_assert!(published.is_err(), "{error}"),
        }
    }

    #[test]
    fn a_placement_that_is_carried_out_stays(scenario in scenarios(4, 4, 40), start_cost in 1..50_u64) {
        let mut scenario = scenario;
        scenario.start_cost = start_cost;
        if let Ok(first) = place(&scenario.problem()) {
            scenario.current = first.placed.clone();
            let second = place(&scenario.problem()).unwrap();
            // The same instances need no start any more; a change must be worth its starts.
            let stay = reckon(&scenario, &first.placed).unwrap();
            prop_assert!(second.cost <= stay);
            if second.started > 0 {
                prop_assert!(second.cost < stay);
            }
        }
    }
}
