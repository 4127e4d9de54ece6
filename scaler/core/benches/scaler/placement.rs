//! Several models on a cluster: cost of a placement, compared to the published algorithm and the
//! lower bound.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tetris_scaler_core::{
    Configuration, ConfigurationSpec, DEFAULT_TRIALS, Demand, Inventory, InventoryLimits,
    ModelTensors, Node, Placement, PlacementProblem, Profile, Rate, Resources, Slo, place,
    place_as_published,
};
use tetris_store_layout::ObjectId;

use crate::clock::{self, Random, median_us};

const MIB: u64 = 1 << 20;

/// Numbers of models and nodes of one problem.
struct Size {
    models: u64,
    nodes: u64,
    /// Maximum requests per second of each model.
    rps: u64,
}

pub fn run(rounds: usize) -> Vec<Value> {
    let mut placements = Vec::new();
    println!(
        "\nplacements: families of four models that share a base, memory beside the published way and the lower bound"
    );
    println!(
        "{:<44} {:>10} {:>10} {:>10} {:>10} {:>10} {:>6}",
        "", "time", "published", "memory", "ratio", "/ bound", "inst."
    );
    for (models, nodes, rps) in [
        (4, 5, 40),
        (8, 20, 40),
        (8, 20, 400),
        (20, 50, 100),
        (40, 100, 100),
        (40, 10_000, 100),
        (200, 10_000, 1_000),
    ] {
        for resident in [false, true] {
            let size = Size { models, nodes, rps };
            placements.extend(report(&size, resident, rounds.min(5)));
        }
    }
    placements
}

fn report(size: &Size, resident: bool, rounds: usize) -> Option<Value> {
    let mut random = Random(size.models * 31 + size.nodes);
    let demands: Vec<Demand> = (0..size.models)
        .map(|at| demand(&mut random, at, size.rps))
        .collect();
    let (nodes, inventory) = cluster(&mut random, size, &demands, resident);
    let problem = PlacementProblem {
        demands: &demands,
        nodes: &nodes,
        inventory: &inventory,
        current: &[],
        fixed: &[],
        start_cost_bytes: 0,
        max_trials: DEFAULT_TRIALS,
    };
    let warm = if resident { ", warm" } else { "" };
    let name = format!(
        "{} models, {} nodes, {} requests/s{warm}",
        size.models, size.nodes, size.rps
    );
    match (place(&problem), place_as_published(&problem)) {
        (Ok(ours), Ok(theirs)) => {
            return Some(compare(&name, &problem, &ours, &theirs, rounds));
        }
        (Err(error), _) => println!("{name:<44} {error}"),
        (_, Err(error)) => println!("{name:<44} published: {error}"),
    }
    None
}

fn compare(
    name: &str,
    problem: &PlacementProblem<'_>,
    ours: &Placement,
    theirs: &Placement,
    rounds: usize,
) -> Value {
    let time = median_us(rounds, || place(problem)) / 1e3;
    let published = median_us(rounds, || place_as_published(problem)) / 1e3;
    let instances: u32 = ours.placed.iter().map(|placed| placed.count).sum();
    println!(
        "{name:<44} {time:>7.1} ms {published:>7.1} ms {:>6} GiB {:>10.3} {:>10.3} {instances:>6}",
        ours.memory_bytes >> 30,
        ours.cost as f64 / theirs.cost as f64,
        ours.cost as f64 / ours.lower_bound as f64,
    );
    json!({
        "name": name,
        "time_ms": time,
        "published_ms": published,
        "memory_gib": ours.memory_bytes >> 30,
        "ratio_to_published": ours.cost as f64 / theirs.cost as f64,
        "ratio_to_bound": ours.cost as f64 / ours.lower_bound as f64,
        "instances": instances,
    })
}

/// Creates equal nodes; with `resident`, each has one of the models.
fn cluster(
    random: &mut Random,
    size: &Size,
    demands: &[Demand],
    resident: bool,
) -> (Vec<Node>, Inventory) {
    let mut inventory = Inventory::new(InventoryLimits::default());
    let free = Resources {
        cpu_millis: 32_000,
        memory_bytes: 64 << 30,
    };
    let nodes_of_size = (0..size.nodes).map(|at| Node {
        name: format!("node-{at}"),
        free,
        tensor_bytes: None,
        stores: BTreeMap::new(),
        gpus: Vec::new(),
        gpus_only: false,
        accepts_new: true,
    });
    let nodes: Vec<Node> = nodes_of_size.collect();
    for node in nodes.iter().filter(|_| resident) {
        let model = &demands[random.below(size.models) as usize];
        let has: Vec<ObjectId> = model.tensors.objects().iter().map(|(id, _)| *id).collect();
        inventory
            .set_node(&node.name, &has)
            .expect("within the limits");
    }
    (nodes, inventory)
}

fn demand(random: &mut Random, at: u64, rps: u64) -> Demand {
    let (family, weights_mib) = (at / 4, 400 + random.below(2_000));
    let tensor = |of: [u64; 2], number: u64| {
        ObjectId::of(&[of[0], of[1], number].map(u64::to_le_bytes).concat())
    };
    // The base has 80 of 100 tensors.
    let base = (0..80).map(|number| (tensor([0, family], number), 1_000 * MIB / 80));
    let own_tensors = (0..20).map(|number| (tensor([1, at], number), weights_mib * MIB / 20));
    let tensors = ModelTensors::try_new(base.chain(own_tensors)).expect("a model");
    let work_us = 20_000 + random.below(80_000);
    let mut all = Vec::new();
    for (cores, batch, threads) in clock::grid() {
        let busy = work_us * (u64::from(batch) * 9 + 1) * u64::from(threads) / cores / 10;
        let spec = ConfigurationSpec {
            cpu_millis: cores * 1_000,
            own_bytes: (220 + u64::from(batch * threads) * 24) * MIB + random.below(2_000) * 4_096,
            shared_bytes: tensors.total_bytes(),
            batch,
            concurrency: threads,
            latency_us: busy.max(work_us * u64::from(batch) / 2),
            rate_millis: None,
            gpu: None,
        };
        all.push(Configuration::try_new(spec).expect("in range"));
    }
    Demand {
        name: format!("model-{at}"),
        profile: Profile::try_new(all).expect("a grid"),
        slo: Slo::try_from_us(500_000).expect("half a second"),
        load: Rate::from_rps(1 + random.below(rps)),
        tensors,
        store: 0,
        alpha_bytes_per_millicore: MIB / 64,
    }
}
