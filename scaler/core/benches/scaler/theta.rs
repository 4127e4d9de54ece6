//! Benchmark of theta: a model of 1,000 objects over 10,000 nodes, and one node's update.

use std::collections::HashSet;

use serde_json::{Value, json};
use tetris_scaler_core::{Inventory, InventoryLimits, ModelTensors};
use tetris_store_layout::ObjectId;

use crate::clock::{Random, median_us};

const NODES: u64 = 10_000;
const OBJECTS: u64 = 1_000;
const MODELS: u64 = 20;

pub fn run(rounds: usize) -> Vec<Value> {
    let mut thetas = Vec::new();
    println!("\ntheta of a model of {OBJECTS} objects over {NODES} nodes, bar 5000 us");
    println!(
        "{:<44} {:>10} {:>10} {:>12} {:>10}",
        "", "theta", "update", "pairs", "memory"
    );
    // First whole models, as loads leave them; then each object on a random share of the nodes.
    let whole = report("nodes have 5 of 20 models, whole", rounds, |random, _| {
        let models: Vec<u64> = (0..5).map(|_| random.below(MODELS)).collect();
        models
            .into_iter()
            .flat_map(|model| (0..OBJECTS).map(move |at| (model, at)))
            .collect()
    });
    thetas.push(whole);
    for percent in [1, 5, 10, 50, 100] {
        let name = format!("each object by chance on {percent} % of the nodes");
        thetas.push(report(&name, rounds, |random, _| {
            let all = (0..OBJECTS).map(|at| (0, at));
            all.filter(|_| random.below(100) < percent).collect()
        }));
    }
    hash_sets(rounds.min(5));
    thetas
}

/// The simple algorithm for comparison: a set per node, probed for each object. It has a tenth of
/// the nodes, to fit into memory.
fn hash_sets(rounds: usize) {
    let nodes = NODES / 10;
    let ids: Vec<ObjectId> = (0..OBJECTS)
        .map(|at| ObjectId::of(&at.to_le_bytes()))
        .collect();
    let sets: Vec<HashSet<ObjectId>> = (0..nodes).map(|_| ids.iter().copied().collect()).collect();
    let count_held = |set: &HashSet<ObjectId>| ids.iter().filter(|id| set.contains(*id)).count();
    let time = median_us(rounds, || sets.iter().map(count_held).collect::<Vec<_>>());
    println!(
        "{:<44} {time:>7.0} us",
        format!("hash sets, {nodes} nodes only")
    );
}

fn report(
    name: &str,
    rounds: usize,
    mut has: impl FnMut(&mut Random, u64) -> Vec<(u64, u64)>,
) -> Value {
    let mut random = Random(7);
    let ids: Vec<Vec<ObjectId>> = (0..MODELS)
        .map(|model| {
            (0..OBJECTS)
                .map(|at| ObjectId::of(&[model, at].map(u64::to_le_bytes).concat()))
                .collect()
        })
        .collect();
    let mut inventory = Inventory::new(InventoryLimits {
        pairs: 100_000_000,
        ..InventoryLimits::default()
    });
    let mut list = |node: u64| -> Vec<ObjectId> {
        let objects = has(&mut random, node).into_iter();
        objects
            .map(|(model, at)| ids[model as usize][at as usize])
            .collect()
    };
    for node in 0..NODES {
        inventory
            .set_node(&format!("node-{node}"), &list(node))
            .expect("within the limits");
    }
    let sizes = ids[0].iter().enumerate();
    let model = ModelTensors::try_new(sizes.map(|(at, id)| (*id, at as u64 + 1))).expect("a model");
    let theta = median_us(rounds, || inventory.thetas(&model));
    let pairs = inventory.pair_count();
    let mib = inventory.memory_bytes() >> 20;
    let lists: Vec<Vec<ObjectId>> = (0..2).map(&mut list).collect();
    let mut turn = 0;
    let update = median_us(rounds, || {
        turn += 1;
        inventory.set_node("node-77", &lists[turn % 2])
    });
    println!("{name:<44} {theta:>7.0} us {update:>7.0} us {pairs:>12} {mib:>6} MiB");
    json!({"name": name, "theta_us": theta, "update_us": update, "pairs": pairs, "memory_mib": mib})
}
