//! The evaluation of Torpor (7.2 to 7.4), and families of models that share a base.
//!
//! **From the paper:** four V100 in two pairs, each at one switch; SLOs and the percentile; rates
//! from 5 to 30 requests a minute; round-robin models; table 3. **Assumed:** what is in images
//! (table 4, figures 2 and 5): models, links, rates within their range, and the memory for models.

mod bound;
mod containers;
mod keep_alive;
mod kinds;
mod node;
mod outcome;
mod variant;

use serde::Serialize;
use tetris_scaler_dispatch::gpu::{GpuScheduler, ModelId};

use super::engine::Engine;
use super::idle::Limits;
use kinds::{BERT, DENSENET_201, RESNET_152};

pub use node::{Links, NodeSetting};
pub use outcome::NodeOutcome;
pub use variant::Variant;

/// Parameters of a reproduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TorporGrid {
    /// Length of a run in seconds.
    pub seconds: u64,
    /// Device memory of a GPU for models, in megabytes.
    pub memory_mb: u64,
    /// Seed.
    pub seed: u64,
}

impl Default for TorporGrid {
    fn default() -> Self {
        Self {
            seconds: 200,
            memory_mb: 28_000,
            seed: 1,
        }
    }
}

/// A policy in an experiment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TorporRun {
    /// Experiment, by the paper's figure.
    pub experiment: &'static str,
    /// Difference from the setting of the experiment, for a sweep.
    pub case: String,
    /// Number of functions.
    pub functions: u32,
    /// Policy.
    pub variant: Variant,
    /// Result.
    pub outcome: NodeOutcome,
}

/// All runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TorporReport {
    /// Parameters.
    pub grid: TorporGrid,
    /// Runs by experiment.
    pub runs: Vec<TorporRun>,
}

/// Memory of a V100, in megabytes, all of which containers and NonSwap have.
const WHOLE_MB: u64 = 32_000;
/// Policies that fit every experiment.
const POLICIES: [Variant; 4] = [
    Variant::SimpleSwap,
    Variant::Lalbo3,
    Variant::Torpor,
    Variant::Sharing,
];

/// Repeats the evaluation.
pub fn reproduce(grid: TorporGrid) -> TorporReport {
    let mut runs = Vec::new();
    let mut add = |experiment, case: &str, setting: &NodeSetting, variants: &[Variant]| {
        for &variant in variants {
            runs.push(TorporRun {
                experiment,
                case: case.to_owned(),
                functions: setting.functions,
                variant,
                outcome: simulate(setting, variant),
            });
        }
    };
    let node = grid.node();
    let of = |functions| NodeSetting {
        functions,
        ..node.clone()
    };
    // 180 functions with 10 requests a minute ask one GPU for 30 a second.
    let one_gpu = NodeSetting {
        gpus: 1,
        kinds: vec![RESNET_152],
        per_minute: vec![10],
        ..of(180)
    };
    add(
        "8",
        "one GPU, ResNet-152, 10 r/m",
        &one_gpu,
        &[Variant::Native, Variant::Torpor, Variant::Sharing],
    );
    let frequent = NodeSetting {
        kinds: vec![RESNET_152],
        per_minute: vec![100, 200, 300],
        ..of(40)
    };
    add(
        "9",
        "ResNet-152, 200 r/m",
        &frequent,
        &[Variant::Native, Variant::Torpor, Variant::Sharing],
    );
    add(
        "10",
        "",
        &of(160),
        &[
            Variant::Native,
            Variant::InflessKa,
            Variant::Torpor,
            Variant::Sharing,
        ],
    );
    for lifespan_percent in [50, 90, 95] {
        let setting = NodeSetting {
            lifespan_percent,
            ..of(160)
        };
        let case = format!("lifespan of {lifespan_percent} %");
        add("10", &case, &setting, &[Variant::InflessKa]);
    }
    let parts = [
        Variant::Random,
        Variant::Fifo,
        Variant::Lru,
        Variant::Torpor,
        Variant::Lalbo3,
        Variant::Sharing,
    ];
    for functions in [320, 480, 560, 640] {
        add("11", "", &of(functions), &parts);
    }
    // One in twelve, with 1,340 MB for 80, has 60 % of the bytes, of which half fit.
    let mut kinds = vec![DENSENET_201; 11];
    kinds.push(BERT);
    let mixed = NodeSetting {
        kinds,
        memory_mb: grid.memory_mb.min(9_000),
        ..of(300)
    };
    add(
        "12",
        "DenseNet-201 and Bert-qa",
        &mixed,
        &[Variant::Lru, Variant::Torpor, Variant::Sharing],
    );
    for functions in [320, 560] {
        let family = NodeSetting {
            shared_permille: 900,
            ..of(functions)
        };
        add("families", "90 % shared", &family, &POLICIES);
    }
    for memory_mb in [8_000, 16_000] {
        let setting = NodeSetting {
            memory_mb,
            ..of(560)
        };
        add("memory", &format!("{memory_mb} MB"), &setting, &POLICIES);
    }
    for links in [Links::NoPeers, Links::OneSwitch, Links::OwnSwitches] {
        let setting = NodeSetting { links, ..of(560) };
        add("links", links.name(), &setting, &POLICIES);
    }
    for functions in [498, 1_002, 2_400] {
        for variant in [
            Variant::Native,
            Variant::NonSwap,
            Variant::SimpleSwap,
            Variant::Torpor,
            Variant::Sharing,
        ] {
            runs.push(cluster(&node, functions, variant));
        }
    }
    TorporReport { grid, runs }
}

impl TorporGrid {
    /// The paper's node, without functions.
    pub fn node(&self) -> NodeSetting {
        NodeSetting {
            functions: 0,
            kinds: (0..kinds::KINDS.len()).collect(),
            per_minute: vec![5, 5, 7, 7, 10, 30],
            gpus: 4,
            memory_mb: self.memory_mb,
            links: Links::Pairs,
            shared_permille: 0,
            lifespan_percent: 99,
            slo_us: [80_000, 200_000],
            seconds: self.seconds,
            seed: self.seed,
        }
    }
}

/// Six nodes with as many functions each, and longer SLOs.
fn cluster(node: &NodeSetting, functions: u32, variant: Variant) -> TorporRun {
    let outcomes = (0..6).map(|number| {
        let setting = NodeSetting {
            functions: functions / 6,
            slo_us: [150_000, 250_000],
            seed: node.seed * 100 + number,
            ..node.clone()
        };
        simulate(&setting, variant)
    });
    TorporRun {
        experiment: "14",
        case: "six nodes".to_owned(),
        functions,
        variant,
        outcome: outcomes.fold(NodeOutcome::default(), |sum, one| sum.plus(&one)),
    }
}

/// Runs one policy on one node.
pub fn simulate(setting: &NodeSetting, variant: Variant) -> NodeOutcome {
    let requests = setting.requests();
    let records = match (variant, variant.policy()) {
        (Variant::InflessKa, _) => keep_alive::run(setting, &requests, WHOLE_MB),
        (_, None) => bound::run(setting, &requests, WHOLE_MB, variant == Variant::Native),
        (_, Some(policy)) => {
            let (topology, models) = (setting.topology(), setting.models());
            let engine = Engine {
                scheduler: GpuScheduler::new(policy, topology.clone(), models.clone()),
                topology: &topology,
                models: &models,
                watched: ModelId(0),
                limits: Limits::default(),
            };
            engine.run(&requests)
        }
    };
    NodeOutcome::of(setting, &records)
}
