//! Rules of dispatch at instances of unequal size, on the same requests.
//!
//! A function has 4 to 8 instances, each of any configuration that meets its objective: what starts,
//! scale-in and replacements leave behind. Requests come by a Poisson process at a part of the
//! instances' capacity, by their profiles. A batch takes 80 to 100 % of its model's latency with as many requests. Nothing
//! starts or stops: the rules of dispatch are all that differs.

mod batch_times;
mod case;
mod gateway;
mod outcome;
pub(crate) mod poisson;
mod proxy;
mod request;
mod rule;
mod run;
mod service;

use serde::Serialize;
use tetris_scaler_core::FieldError;

use crate::error::SimulationError;

use batch_times::BatchTimes;
use case::{FunctionCase, model_of};
use outcome::Times;
pub use outcome::{DispatchOutcome, Quantiles};
pub use rule::Rule;
pub use service::{Service, ServiceOutcome, simulate_service};

/// Parameters of a comparison.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DispatchGrid {
    /// Numbers of functions, each its own case.
    pub functions: Vec<usize>,
    /// Number of requests of a case, all functions together. The first tenth does not count.
    pub requests: u64,
    /// Load, in percent of the capacity of the instances.
    pub load_percent: u64,
    /// Seed of configurations, requests and latencies.
    pub seed: u64,
    /// Longest wait of a batch to fill, in percent of what its latency leaves of the objective; `None` for the operator's.
    pub batch_wait_percent: Option<u64>,
}

impl Default for DispatchGrid {
    fn default() -> Self {
        Self {
            functions: vec![1, 200],
            requests: 1_000_000,
            load_percent: 85,
            seed: 1,
            batch_wait_percent: None,
        }
    }
}

/// Maximum number of functions of a case.
const MAX_FUNCTIONS: u64 = 10_000;
/// Maximum number of requests of a case.
pub const MAX_REQUESTS: u64 = 100_000_000;

/// A rule on the requests of a case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DispatchRun {
    /// Number of functions.
    pub functions: usize,
    /// Number of their instances.
    pub instances: usize,
    /// Rule.
    pub rule: Rule,
    /// Result.
    pub outcome: DispatchOutcome,
}

/// All runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DispatchComparison {
    /// Parameters of the runs.
    pub grid: DispatchGrid,
    /// Runs by case and rule.
    pub runs: Vec<DispatchRun>,
}

impl DispatchComparison {
    /// Returns the run of the one dispatcher in the case of `run`.
    pub fn ours(&self, run: &DispatchRun) -> Option<&DispatchRun> {
        let mut runs = self.runs.iter();
        runs.find(|entry| entry.functions == run.functions && entry.rule == Rule::Dispatcher)
    }
}

/// Runs all rules on all cases of `grid`.
///
/// # Errors
///
/// Fails if a parameter is out of range.
pub fn compare_dispatch(grid: DispatchGrid) -> Result<DispatchComparison, SimulationError> {
    check("load_percent", grid.load_percent, 1, 1_000)?;
    check("requests", grid.requests, 1, MAX_REQUESTS)?;
    let mut runs = Vec::new();
    for &functions in &grid.functions {
        check("functions", functions as u64, 1, MAX_FUNCTIONS)?;
        let requests = (grid.requests / functions as u64).max(1);
        let cases = (0..functions as u64)
            .map(|number| FunctionCase::try_new(number, grid.seed, grid.batch_wait_percent));
        let cases: Vec<FunctionCase> = cases.collect::<Result<_, _>>()?;
        for rule in Rule::ALL {
            let mut times = Times::default();
            for (number, case) in (0..).zip(&cases) {
                let arrivals = case.arrivals(grid.load_percent);
                let batch_times = BatchTimes::Modeled {
                    model: model_of(number),
                    rng: case.latencies(),
                };
                run::run(case, rule, requests, arrivals, batch_times, &mut times);
            }
            runs.push(DispatchRun {
                functions,
                instances: cases.iter().map(|case| case.instances.len()).sum(),
                rule,
                outcome: times.outcome(),
            });
        }
    }
    Ok(DispatchComparison { grid, runs })
}

fn check(field: &'static str, value: u64, min: u64, max: u64) -> Result<(), SimulationError> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    Err(FieldError {
        field,
        value,
        min,
        max,
    }
    .into())
}
