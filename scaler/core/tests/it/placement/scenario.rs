//! Placement problems for tests.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tetris_scaler_core::{
    Configuration, ConfigurationSpec, DEFAULT_TRIALS, Demand, GpuNeeds, GpuRoom, GpuView, Hosted,
    Inventory, InventoryLimits, MAX_MEMORY_BYTES, ModelTensors, Node, Placed, PlacementProblem,
    Profile, Rate, Resources, Slo,
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
    /// Tensors in device memory, by node and GPU.
    pub on_gpus: Vec<Vec<BTreeSet<ObjectId>>>,
}

impl Scenario {
    pub fn new(demands: Vec<Demand>, nodes: &[(u64, u64)]) -> Self {
        let count = nodes.len();
        let sized = nodes.iter().enumerate();
        let nodes = sized.map(|(at, &(cpu_millis, memory_bytes))| Node {
            name: format!("n{at}"),
            free: Resources {
                cpu_millis,
                memory_bytes,
            },
            tensor_bytes: None,
            stores: BTreeMap::new(),
            gpus: Vec::new(),
            gpus_only: false,
            accepts_new: true,
        });
        Self {
            demands,
            nodes: nodes.collect(),
            inventory: Inventory::new(InventoryLimits::default()),
            current: Vec::new(),
            fixed: Vec::new(),
            start_cost: 0,
            on_gpus: vec![Vec::new(); count],
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

    /// Adds a GPU to a node: its type, room for tensors and for private memory, and the tensors there.
    pub fn gpu(mut self, node: usize, kind: &str, room: (u64, u64), tensors: &[u8]) -> Self {
        let resident: BTreeSet<ObjectId> = tensors.iter().map(|name| tensor(*name)).collect();
        self.nodes[node].gpus.push(GpuRoom::of(&GpuView {
            uuid: format!("GPU-{node}-{}", self.on_gpus[node].len()),
            kind: kind.parse().unwrap(),
            tensor_bytes: room.0,
            own_bytes: room.1,
            resident: Arc::new(resident.clone()),
        }));
        self.on_gpus[node].push(resident);
        self
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
    let configurations = rows
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
                gpu: None,
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
        profile: Profile::try_new(configurations.collect()).unwrap(),
        slo: Slo::try_from_us(1_000_000).unwrap(),
        load: Rate::from_rps(rps),
        tensors: ModelTensors::try_new(tensors.iter().map(|&(name, bytes)| (tensor(name), bytes)))
            .unwrap(),
        store: 0,
        alpha_bytes_per_millicore: 0,
    }
}

/// Lets the configurations of a demand need a GPU, each with this private memory and part of its
/// time.
pub fn on_gpu(demand: Demand, kind: &str, own_bytes: u64, share_permille: u32) -> Demand {
    let needs = GpuNeeds {
        kind: kind.parse().unwrap(),
        own_bytes,
        share_permille,
    };
    let all = demand.profile.configurations().iter();
    let all = all.map(|configuration| {
        let spec = ConfigurationSpec {
            gpu: Some(needs),
            ..ConfigurationSpec::from(*configuration)
        };
        Configuration::try_new(spec).unwrap()
    });
    Demand {
        profile: Profile::try_new(all.collect()).unwrap(),
        ..demand
    }
}
