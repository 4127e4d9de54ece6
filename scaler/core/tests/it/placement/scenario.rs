//! Placement problems for tests.

use std::collections::BTreeMap;

use tetris_scaler_core::{
    Configuration, ConfigurationSpec, DEFAULT_TRIALS, Demand, Hosted, Inventory, InventoryLimits,
    MAX_MEMORY_BYTES, ModelTensors, Node, Placed, PlacementProblem, Profile, Rate, Resources, Slo,
};
use tetris_store_layout::ObjectId;

/// Owner of all that a problem borrows.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub demands: Vec<Demand>,
    pub nodes: Vec<Node>,
    pub inventory: Inventory,
    pub current: Vec<Placed>,
    pub fixed: Vec<Hosted>,
    pub start_cost: u64,
}

impl Scenario {
    pub fn new(demands: Vec<Demand>, nodes: &[(u64, u64)]) -> Self {
        let each = nodes.iter().enumerate();
        let nodes = each.map(|(at, &(cpu_millis, memory_bytes))| Node {
            name: format!("n{at}"),
            free: Resources {
                cpu_millis,
                memory_bytes,
            },
            tensor_bytes: None,
            stores: BTreeMap::new(),
            accepts_new: true,
        });
        Self {
            demands,
            nodes: nodes.collect(),
            inventory: Inventory::new(InventoryLimits::default()),
            current: Vec::new(),
            fixed: Vec::new(),
            start_cost: 0,
        }
    }

    pub fn problem(&self) -> PlacementProblem<'_> {
        PlacementProblem {
            demands: &self.demands,
            nodes: &self.nodes,
            inventory: &self.inventory,
            current: &self.current,
            fixed: &self.fixed,
            start_cost_bytes: self.start_cost,
            max_trials: DEFAULT_TRIALS,
        }
    }

    pub fn set_alpha(&mut self, alpha: u64) {
        for demand in &mut self.demands {
            demand.alpha_bytes_per_millicore = alpha;
        }
    }

    pub fn resident(mut self, node: usize, tensors: &[(u8, u64)]) -> Self {
        let ids: Vec<ObjectId> = tensors.iter().map(|(name, _)| tensor(*name)).collect();
        self.inventory.set_node(&format!("n{node}"), &ids).unwrap();
        self
    }
}

pub fn tensor(name: u8) -> ObjectId {
    ObjectId::of(&[name])
}

/// Creates a model with a load of `rps`, configurations of (millicores, private bytes, requests per
/// second), and an objective of a second.
pub fn demand(rps: u64, rows: &[(u64, u64, u32)], tensors: &[(u8, u64)]) -> Demand {
    let shared_bytes: u64 = tensors.iter().map(|(_, bytes)| bytes).sum();
    let shared_bytes = shared_bytes.min(MAX_MEMORY_BYTES);
    let each = rows
        .iter()
        .enumerate()
        .map(|(at, &(cpu_millis, own_bytes, rate))| {
            let spec = ConfigurationSpec {
                cpu_millis,
                own_bytes,
                shared_bytes,
                batch: 1,
                concurrency: rate,
                latency_us: 1_000_000,
                rate_millis: None,
            };
            assert!(
                rows[..at]
                    .iter()
                    .all(|row| (row.0, row.2) != (cpu_millis, rate))
            );
            Configuration::try_new(spec).unwrap()
        });
    Demand {
        name: format!("model of {}", tensors.first().map_or(0, |(name, _)| *name)),
        profile: Profile::try_new(each.collect()).unwrap(),
        slo: Slo::try_from_us(1_000_000).unwrap(),
        load: Rate::from_rps(rps),
        tensors: ModelTensors::try_new(tensors.iter().map(|&(name, bytes)| (tensor(name), bytes)))
            .unwrap(),
        store: 0,
        alpha_bytes_per_millicore: 0,
    }
}
