//! The evaluation of GPU-FaaS (V): LB, LALB and LALBO3 with working sets of 15, 25 and 35.
//!
//! **From the paper:** models (table I), 12 GPUs, 325 requests in each of six minutes at random
//! moments, the limit of 25. **Assumed, and swept:** the popularity of functions, since the paper's
//! own sentence makes the working set irrelevant, and the memory of a GPU for models, which it does
//! not give. The defaults are the best of the sweep ([`FaasFit::best`]).

mod claims;
mod fit;
mod models;
mod outcome;
mod popularity;
mod workload;

use std::sync::Arc;

use serde::Serialize;
use tetris_gpu_policies::{LALB, LALBO3, LocalityAware};
use tetris_scaler_dispatch::gpu::{GpuPolicy, GpuScheduler, LoadBalancing, ModelId, SharingRules};

use super::engine::Engine;
use super::idle::Limits;
use claims::{COPIES, FALSE_MISSES, LATENCY, MISSES, Named, VARIANCE, change};

pub use claims::FaasClaim;
pub use fit::FaasFit;
pub use outcome::FaasOutcome;
pub use popularity::Popularity;
pub use workload::FaasSetting;

/// Working sets of the paper.
pub const WORKING_SETS: [u32; 3] = [15, 25, 35];
/// Limits of overtaking of figure 7.
pub const LIMITS: [u32; 10] = [0, 5, 10, 15, 20, 25, 30, 35, 40, 45];

/// Parameters of a reproduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FaasGrid {
    /// Requests per minute.
    pub per_minute: u64,
    /// Number of minutes.
    pub minutes: u64,
    /// Number of seeds, from 1, whose mean is reported.
    pub seeds: u64,
    /// Memory of a GPU for models in the main runs, in megabytes.
    pub memory_mb: u64,
    /// Popularity in the main runs.
    pub popularity: Popularity,
}

impl Default for FaasGrid {
    fn default() -> Self {
        Self {
            per_minute: 325,
            minutes: 6,
            seeds: 5,
            memory_mb: 7_600,
            popularity: Popularity::Root,
        }
    }
}

/// Memories of a GPU in the sweep, in megabytes.
pub const MEMORIES_MB: [u64; 5] = [6_500, 7_000, 7_600, 7_800, 8_200];

/// A policy in a setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FaasRun {
    /// Name of the policy.
    pub policy: String,
    /// Working set.
    pub working_set: u32,
    /// Popularity.
    pub popularity: Popularity,
    /// Memory of a GPU, in megabytes.
    pub memory_mb: u64,
    /// Result, mean of all seeds.
    pub outcome: FaasOutcome,
}

/// A reproduction: runs, claims, and the sweep.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FaasReport {
    /// Parameters.
    pub grid: FaasGrid,
    /// Runs of the paper's setting.
    pub runs: Vec<FaasRun>,
    /// Runs with other limits of overtaking, working set 35.
    pub limits: Vec<FaasRun>,
    /// The paper's figures beside those of the simulation.
    pub claims: Vec<FaasClaim>,
    /// Runs with other popularity and memory.
    pub sweep: Vec<FaasRun>,
    /// Fit of each setting of the sweep to the paper's figures.
    pub fits: Vec<FaasFit>,
}

/// Policies of the comparison, with their names.
fn policies() -> Vec<(String, Arc<dyn GpuPolicy>)> {
    vec![
        ("LB".to_owned(), Arc::new(LoadBalancing)),
        ("LALB".to_owned(), Arc::new(LALB)),
        ("LALBO3".to_owned(), Arc::new(LALBO3)),
        ("sharing".to_owned(), Arc::new(SharingRules::default())),
    ]
}

/// Repeats the evaluation. Calls `progress` with the number of settings done and of all.
pub fn reproduce(grid: FaasGrid, progress: &dyn Fn(usize, usize)) -> FaasReport {
    let all = 1 + Popularity::ALL.len() * MEMORIES_MB.len();
    let runs = working_sets(&grid, grid.popularity, grid.memory_mb);
    let limits = of_limits(&grid, &LIMITS, grid.popularity, grid.memory_mb);
    let (mut sweep, mut fits) = (Vec::new(), Vec::new());
    for popularity in Popularity::ALL {
        for memory_mb in MEMORIES_MB {
            progress(1 + fits.len(), all);
            let runs = working_sets(&grid, popularity, memory_mb);
            let limits = of_limits(&grid, &[0, 45], popularity, memory_mb);
            fits.push(FaasFit::of(popularity, memory_mb, &claims(&runs, &limits)));
            sweep.extend(runs);
        }
    }
    progress(all, all);
    FaasReport {
        claims: claims(&runs, &limits),
        grid,
        runs,
        limits,
        sweep,
        fits,
    }
}

/// Runs of all policies with all working sets.
fn working_sets(grid: &FaasGrid, popularity: Popularity, memory_mb: u64) -> Vec<FaasRun> {
    let mut runs = Vec::new();
    for working_set in WORKING_SETS {
        for policy in policies() {
            runs.push(run(grid, working_set, popularity, memory_mb, policy));
        }
    }
    runs
}

/// Runs with these limits of overtaking and a working set of 35 (figure 7).
fn of_limits(
    grid: &FaasGrid,
    limits: &[u32],
    popularity: Popularity,
    memory_mb: u64,
) -> Vec<FaasRun> {
    let run_with = |&overtaking_limit: &u32| {
        let policy: Arc<dyn GpuPolicy> = Arc::new(LocalityAware { overtaking_limit });
        let named = (format!("limit {overtaking_limit}"), policy);
        run(grid, 35, popularity, memory_mb, named)
    };
    limits.iter().map(run_with).collect()
}

fn run(
    grid: &FaasGrid,
    working_set: u32,
    popularity: Popularity,
    memory_mb: u64,
    (name, policy): (String, Arc<dyn GpuPolicy>),
) -> FaasRun {
    let outcomes: Vec<FaasOutcome> = (1..=grid.seeds)
        .map(|seed| {
            let setting = FaasSetting {
                working_set,
                popularity,
                memory_mb,
                gpus: 12,
                per_minute: grid.per_minute,
                minutes: grid.minutes,
                seed,
            };
            simulate(&setting, Arc::clone(&policy))
        })
        .collect();
    FaasRun {
        policy: name,
        working_set,
        popularity,
        memory_mb,
        outcome: FaasOutcome::mean(&outcomes),
    }
}

/// Runs one policy in one setting.
pub fn simulate(setting: &FaasSetting, policy: Arc<dyn GpuPolicy>) -> FaasOutcome {
    let (topology, models) = (setting.topology(), setting.models());
    let engine = Engine {
        scheduler: GpuScheduler::new(policy, topology.clone(), models.clone()),
        topology: &topology,
        models: &models,
        watched: ModelId(0),
        limits: Limits::default(),
    };
    FaasOutcome::of(&engine.run(&setting.requests()))
}

/// A change against LB that the paper has.
struct AgainstLb {
    figure: &'static str,
    policy: &'static str,
    working_set: u32,
    field: Named,
    /// In hundredths of a percent.
    paper: i64,
}

const fn against_lb(
    figure: &'static str,
    policy: &'static str,
    working_set: u32,
    field: Named,
    paper: i64,
) -> AgainstLb {
    AgainstLb {
        figure,
        policy,
        working_set,
        field,
        paper,
    }
}

/// The paper's changes against LB.
const AGAINST_LB: [AgainstLb; 14] = [
    against_lb("4a", "LALB", 15, LATENCY, -9_774),
    against_lb("4a", "LALB", 25, LATENCY, -9_333),
    against_lb("4a", "LALB", 35, LATENCY, -7_943),
    against_lb("4a", "LALBO3", 35, LATENCY, -9_693),
    against_lb("4b", "LALB", 15, MISSES, -9_411),
    against_lb("4b", "LALB", 35, MISSES, -6_521),
    against_lb("4b", "LALBO3", 35, MISSES, -8_116),
    against_lb("5", "LALB", 15, FALSE_MISSES, -3_438),
    against_lb("5", "LALBO3", 15, FALSE_MISSES, -3_541),
    against_lb("5", "LALBO3", 35, FALSE_MISSES, -365),
    against_lb("6", "LALB", 15, COPIES, -4_896),
    against_lb("6", "LALB", 35, COPIES, -3_532),
    against_lb("6", "LALBO3", 15, COPIES, -4_948),
    against_lb("6", "LALBO3", 35, COPIES, -3_347),
];

/// Changes from a limit of 0 to one of 45, figure 7.
const OF_LIMIT: [(Named, i64); 3] = [(LATENCY, -8_510), (MISSES, -4_583), (VARIANCE, -9_593)];

fn claims(runs: &[FaasRun], limits: &[FaasRun]) -> Vec<FaasClaim> {
    let find = |policy: &str, working_set| {
        let mut all = runs.iter();
        all.find(|run| run.policy == policy && run.working_set == working_set)
    };
    let mut claims = Vec::new();
    for AgainstLb {
        figure,
        policy,
        working_set,
        field: (name, field),
        paper,
    } in AGAINST_LB
    {
        if let Some((lb, other)) = find("LB", working_set).zip(find(policy, working_set)) {
            claims.push(FaasClaim {
                figure,
                name: format!("{policy}, working set {working_set}: {name} against LB"),
                paper,
                simulated: change(field(&lb.outcome), field(&other.outcome)),
            });
        }
    }
    if let Some((none, most)) = limits.first().zip(limits.last()) {
        for ((name, field), paper) in OF_LIMIT {
            claims.push(FaasClaim {
                figure: "7",
                name: format!("limit 45, working set 35: {name} against limit 0"),
                paper,
                simulated: change(field(&none.outcome), field(&most.outcome)),
            });
        }
    }
    claims
}
