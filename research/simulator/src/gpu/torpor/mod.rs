//! The evaluation of Torpor (7.2 to 7.4), and families of models that share a base.
//!
//! **From the paper:** four V100 in two pairs, each at one switch; SLOs and the percentile;
//! round-robin models; table 3. **From the authors' prototype** (FCSLab/torpor): arrivals, rates,
//! numbers of functions, lengths of runs, memory for models, links, native containers, lifespans, the
//! threshold. **Assumed:** what is in images (table 4): sizes and times of models.

mod arrivals;
mod bound;
mod containers;
mod figures;
mod keep_alive;
mod kinds;
mod node;
mod outcome;
mod rates;
mod variant;

use serde::Serialize;
use tetris_scaler_dispatch::gpu::{GpuScheduler, ModelId};

use super::engine::Engine;
use super::idle::Limits;
use figures::experiments;
use node::WHOLE_MB;

pub use arrivals::Arrivals;
pub use figures::ONE_GPU;
pub use node::{Links, NodeSetting};
pub use outcome::NodeOutcome;
pub use rates::Rates;
pub use variant::Variant;

/// Parameters of a reproduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TorporGrid {
    /// Length of a run in seconds; nothing for the length of each in the authors' scripts.
    pub seconds: Option<u64>,
    /// Device memory of a GPU for models, in megabytes.
    pub memory_mb: u64,
    /// Kind of arrivals.
    pub arrivals: Arrivals,
    /// Seed.
    pub seed: u64,
}

impl Default for TorporGrid {
    fn default() -> Self {
        Self {
            seconds: None,
            // 25 GiB.
            memory_mb: 26_843,
            arrivals: Arrivals::Authors,
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
    /// Length in seconds.
    pub seconds: u64,
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

/// Repeats the evaluation. Calls `progress` with the number of experiments done and of all.
pub fn reproduce(grid: TorporGrid, progress: &dyn Fn(usize, usize)) -> TorporReport {
    const CLUSTERS: [u32; 3] = [498, 1_002, 2_400];
    let mut runs = Vec::new();
    let experiments = experiments(&grid);
    let all = experiments.len() + CLUSTERS.len();
    for (done, experiment) in experiments.into_iter().enumerate() {
        progress(done, all);
        let setting = &experiment.setting;
        for variant in experiment.variants {
            runs.push(TorporRun {
                experiment: experiment.figure,
                case: experiment.case.clone(),
                functions: setting.functions,
                seconds: setting.seconds,
                variant,
                outcome: simulate(setting, variant),
            });
        }
    }
    for (number, functions) in CLUSTERS.into_iter().enumerate() {
        progress(all - CLUSTERS.len() + number, all);
        for variant in [
            Variant::Native,
            Variant::NonSwap,
            Variant::SimpleSwap,
            Variant::Torpor,
            Variant::Sharing,
        ] {
            runs.push(cluster(&grid, functions, variant));
        }
    }
    progress(all, all);
    TorporReport { grid, runs }
}

/// Six nodes with as many functions each, and longer SLOs.
fn cluster(grid: &TorporGrid, functions: u32, variant: Variant) -> TorporRun {
    let outcomes = (0..6).map(|number| simulate(&grid.in_cluster(functions, number), variant));
    TorporRun {
        experiment: "14",
        case: "six nodes".to_owned(),
        functions,
        seconds: grid.in_cluster(functions, 0).seconds,
        variant,
        outcome: outcomes.fold(NodeOutcome::default(), |sum, outcome| sum.plus(&outcome)),
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
