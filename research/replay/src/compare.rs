//! Comparison of all policies on all traces, with a criterion for the right default.
//!
//! **The criterion.** In each cell (kind of trace, size of store, seed) a policy's reload time is
//! divided by that of the best policy of the cell. A policy's *slowdown* is the geometric mean over
//! all cells. Users notice the wait for a load, so the lowest slowdown wins. Policies within
//! [`TIE_PERCENT`] of it are equally good, and of these the one with the least memory in use (mean
//! GiB-hours) wins.

use serde::Serialize;
use tetris_reclaimer_core::{
    Expiry, Order, Policy, PolicyConfig, PolicyError, SnapshotError, StorePolicy,
};
use tetris_simulation::traces::{TraceError, TraceFile};
use tetris_simulation::{TraceKind, TraceSource};

use crate::catalog::Catalog;
use crate::simulate::{ReplayOutcome, simulate};
use crate::trace::{Request, generate, of_file};

/// Difference to the lowest slowdown below which a policy is equally good, in percent.
pub const TIE_PERCENT: f64 = 2.0;

/// Seeds of the comparison behind the default.
pub const SEEDS: [u64; 3] = [11, 22, 33];

/// Sizes of the store, in percent of all distinct bytes of the models: from a store with room for
/// little to one that holds everything but the free share of the watermark.
pub const SIZES_PERCENT: [u64; 3] = [25, 50, 100];

/// Length of a trace in hours.
pub const HOURS: u64 = 24;

/// Maximum number of requests of a file in a run; each takes 24 bytes.
pub const MAX_REQUESTS: u64 = 20_000_000;

/// A policy in the comparison.
#[derive(Debug, Clone, Serialize)]
pub struct Candidate {
    /// Its name.
    pub name: &'static str,
    /// Its description.
    pub about: &'static str,
    /// The policy of the store.
    pub policy: StorePolicy,
}

/// The policies in the comparison.
pub fn candidates() -> Vec<Candidate> {
    let with = |name, about, expiry, secs: u64, order| Candidate {
        name,
        about,
        policy: StorePolicy {
            keep_alive_secs: secs.min(StorePolicy::default().keep_alive_secs),
            expiry,
            expire_after_secs: secs,
            order,
            ..StorePolicy::default()
        },
    };
    vec![
        with(
            "no-cache",
            "free unmapped objects at the next pass (Tetris 3.4, without caching)",
            Expiry::Fixed,
            0,
            Order::Lru,
        ),
        with(
            "keep-alive",
            "free after 10 minutes without use (Tetris 3.4)",
            Expiry::Fixed,
            600,
            Order::Lru,
        ),
        with(
            "lru",
            "keep until room is needed, then least recently used first (Tetris 3.4)",
            Expiry::Never,
            600,
            Order::Lru,
        ),
        with(
            "greedy-dual",
            "keep until room is needed, then least valuable first (FaasCache)",
            Expiry::Never,
            600,
            Order::GreedyDual,
        ),
        with(
            "learned-lru",
            "free after a window learned per model (ATC 2020), least recently used first",
            Expiry::Learned,
            600,
            Order::Lru,
        ),
        with(
            "learned-greedy-dual",
            "free after a window learned per model (ATC 2020), least valuable first",
            Expiry::Learned,
            600,
            Order::GreedyDual,
        ),
    ]
}

/// Traces, sizes and seeds of a comparison.
#[derive(Debug, Clone, Serialize)]
pub struct Grid {
    /// Kinds of generated traces.
    pub kinds: Vec<TraceKind>,
    /// Requests of a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<TraceFile>,
    /// Sizes of the store, in percent of all distinct bytes.
    pub sizes_percent: Vec<u64>,
    /// Seeds.
    pub seeds: Vec<u64>,
    /// Length of a trace in hours.
    pub hours: u64,
}

impl Default for Grid {
    fn default() -> Self {
        Self {
            kinds: TraceKind::ALL.to_vec(),
            file: None,
            sizes_percent: SIZES_PERCENT.to_vec(),
            seeds: SEEDS.to_vec(),
            hours: HOURS,
        }
    }
}

impl Grid {
    /// Returns the labels of the requests of all runs.
    pub fn sources(&self) -> Vec<TraceSource> {
        let generated = self.kinds.iter().map(|&kind| kind.into());
        let file = self.file.iter().map(|file| file.trace.format());
        generated.chain(file.map(TraceSource::File)).collect()
    }

    /// Returns the requests of a seed for `models` models, with the label of each trace.
    fn traces(
        &self,
        models: usize,
        seed: u64,
    ) -> Result<Vec<(TraceSource, Vec<Request>)>, CompareError> {
        let generated = self.kinds.iter();
        let generated =
            generated.map(|&kind| (kind.into(), generate(kind, models, self.hours, seed)));
        let mut traces: Vec<(TraceSource, _)> = generated.collect();
        if let Some(file) = &self.file {
            let sample = file.trace.sample(file.rule, models, seed)?;
            let expected = match file.micro_rps {
                Some(micro_rps) => micro_rps.saturating_mul(self.hours * 3_600) / 1_000_000,
                None => sample.requests(),
            };
            if expected > MAX_REQUESTS {
                return Err(CompareError::Requests { expected });
            }
            let requests = of_file(&sample, file.micro_rps, models, self.hours, seed);
            traces.push((TraceSource::File(file.trace.format()), requests));
        }
        Ok(traces)
    }
}

/// One policy on one trace with one store.
#[derive(Debug, Clone, Serialize)]
pub struct Run {
    /// The policy's name.
    pub policy: &'static str,
    /// The kind of trace, or the format of its file.
    pub kind: TraceSource,
    /// Size of the store, in percent of all distinct bytes.
    pub size_percent: u64,
    /// The seed.
    pub seed: u64,
    /// Its outcome.
    #[serde(flatten)]
    pub outcome: ReplayOutcome,
}

/// Scores of a policy over all cells.
#[derive(Debug, Clone, Serialize)]
pub struct Score {
    /// The policy's name.
    pub policy: &'static str,
    /// Geometric mean of its reload time over that of the best policy of each cell.
    pub slowdown: f64,
    /// Mean over the cells of the share of requested bytes that were in the store.
    pub hit_ratio: f64,
    /// Mean reload time of a cell, in seconds.
    pub reload_secs: f64,
    /// Mean memory in use of a cell, in GiB-hours.
    pub gib_hours: f64,
}

/// The result of a comparison.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    /// The grid of its runs.
    pub grid: Grid,
    /// The compared policies.
    pub candidates: Vec<Candidate>,
    /// All runs.
    pub runs: Vec<Run>,
    /// Scores of all policies, in the order of `candidates`.
    pub scores: Vec<Score>,
    /// Name of the right default, by the criterion.
    pub winner: Option<&'static str>,
}

/// The reason a comparison failed.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// A candidate is not a valid policy.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The simulator created a contradictory snapshot.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// The file has too few functions with enough requests.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The file has more requests than a replay takes.
    #[error(
        "requests of the file in a run: expected at most {MAX_REQUESTS}, found {expected}; use a lower --trace-rate, or fewer \
         --trace-minutes or --trace-functions"
    )]
    Requests {
        /// Number of requests.
        expected: u64,
    },
}

/// Runs all candidates over the grid.
///
/// # Errors
///
/// [`CompareError`] if a candidate or a snapshot is invalid.
pub fn compare(grid: Grid) -> Result<Comparison, CompareError> {
    let candidates = candidates();
    let mut runs = Vec::new();
    for &seed in &grid.seeds {
        let catalog = Catalog::generate(seed);
        for (kind, trace) in grid.traces(catalog.models.len(), seed)? {
            for &size_percent in &grid.sizes_percent {
                let capacity = catalog.distinct_bytes() / 100 * size_percent;
                for candidate in &candidates {
                    let policy = Policy::try_new(PolicyConfig {
                        store: candidate.policy.clone(),
                        ..PolicyConfig::default()
                    })?;
                    runs.push(Run {
                        policy: candidate.name,
                        kind,
                        size_percent,
                        seed,
                        outcome: simulate(&catalog, &trace, &policy, capacity)?,
                    });
                }
            }
        }
    }
    let scores: Vec<Score> = candidates
        .iter()
        .map(|candidate| score(candidate.name, &runs))
        .collect();
    Ok(Comparison {
        winner: winner(&scores),
        grid,
        candidates,
        runs,
        scores,
    })
}

/// Computes a policy's scores over `runs`, which must contain all policies of each cell.
pub fn score(policy: &'static str, runs: &[Run]) -> Score {
    let of_policy = || runs.iter().filter(|run| run.policy == policy);
    let cells = of_policy().count().max(1) as f64;
    let mean = |of: fn(&ReplayOutcome) -> f64| {
        of_policy().map(|run| of(&run.outcome)).sum::<f64>() / cells
    };
    let slowdown = |run: &Run| {
        let same = runs.iter().filter(|other| {
            (other.kind, other.size_percent, other.seed) == (run.kind, run.size_percent, run.seed)
        });
        let best = same
            .map(|other| other.outcome.reload_secs)
            .fold(f64::INFINITY, f64::min);
        // A trace without any load counts as equal.
        (run.outcome.reload_secs / best).max(1.0)
    };
    let logs: f64 = of_policy().map(|run| slowdown(run).ln()).sum();
    Score {
        policy,
        slowdown: (logs / cells).exp(),
        hit_ratio: mean(ReplayOutcome::hit_ratio),
        reload_secs: mean(|outcome| outcome.reload_secs),
        gib_hours: mean(|outcome| outcome.gib_hours),
    }
}

/// Finds the right default by the criterion.
pub fn winner(scores: &[Score]) -> Option<&'static str> {
    let best = scores
        .iter()
        .map(|score| score.slowdown)
        .fold(f64::INFINITY, f64::min);
    let as_good = |score: &&Score| score.slowdown <= best * (1.0 + TIE_PERCENT / 100.0);
    scores
        .iter()
        .filter(as_good)
        .min_by(|a, b| a.gib_hours.total_cmp(&b.gib_hours))
        .map(|score| score.policy)
}
