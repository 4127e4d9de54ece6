//! Sensitivity of the comparison: every invented input varied, one at a time and in combinations.

mod inputs;
mod points;
mod wins;

use serde::Serialize;
use tetris_simulation::TraceSource;

use crate::column::Column;
use crate::compare::Grid;
use crate::engine::simulate;
use crate::error::SimulationError;
use crate::outcome::RunOutcome;
use crate::parallel::in_parallel;
use crate::policy::Policy;
use crate::recorded::TraceInput;

pub use inputs::{INPUTS, Input};
pub use points::{Change, Point};
pub use wins::{AS_TIMELY_PER_100_000, Wins, competitors};

/// Values of a policy in each of [`Column::ALL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PolicyValues {
    /// Policy.
    pub policy: Policy,
    /// Values in the order of [`Column::ALL`].
    pub values: [u64; Column::ALL.len()],
}

impl PolicyValues {
    fn of(policy: Policy, outcome: &RunOutcome) -> Self {
        Self {
            policy,
            values: Column::ALL.map(|column| column.of(outcome)),
        }
    }

    /// Value of a column.
    pub fn value(&self, column: Column) -> u64 {
        let columns = Column::ALL.iter().zip(self.values);
        let mut matching = columns.filter(|(entry, _)| **entry == column);
        matching.next().map_or(0, |(_, value)| value)
    }
}

/// All policies on one trace with the assumptions of one point.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SweepRun {
    /// Index of the point.
    pub point: usize,
    /// Kind of the trace, or the format of its file.
    pub kind: TraceSource,
    /// Values of the policies.
    pub results: Vec<PolicyValues>,
    /// Policies without a configuration that meets an objective.
    pub infeasible: Vec<Policy>,
}

/// An input with its range.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct InputRange {
    /// Input, with its low and high value.
    #[serde(flatten)]
    pub input: Input,
    /// Default value.
    pub default: u64,
}

/// Result of a sweep.
#[derive(Clone, Debug, Serialize)]
pub struct Sweep {
    /// Parameters of all runs; each point changes the assumptions.
    pub grid: Grid,
    /// Inputs that are varied.
    pub inputs: Vec<InputRange>,
    /// Points, the default first.
    pub points: Vec<Point>,
    /// Runs by point and kind.
    pub runs: Vec<SweepRun>,
    /// Wins of each policy.
    pub wins: Vec<Wins>,
}

/// Runs all applications together at every point of a sweep, with `random` combinations, on all
/// cores. `progress` gets the numbers of finished and of all runs.
///
/// # Errors
///
/// Fails if a parameter is out of range. A policy that meets no objective is a result, not an error.
pub fn sweep(
    grid: Grid,
    random: usize,
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<Sweep, SimulationError> {
    let points = points::points(random, grid.seed);
    let traces = grid.traces();
    let tasks: Vec<(usize, &TraceInput)> = (0..points.len())
        .flat_map(|point| traces.iter().map(move |trace| (point, trace)))
        .collect();
    let mut runs = in_parallel(&tasks, progress, |&(at, trace)| {
        points.get(at).map(|point| run(&grid, point, at, trace))
    })?;
    runs.sort_by_key(|run| (run.point, run.kind));
    let inputs = INPUTS.iter().map(|&input| InputRange {
        input,
        default: input.default_value(),
    });
    Ok(Sweep {
        inputs: inputs.collect(),
        wins: wins::wins(&grid.policies, &runs),
        grid,
        points,
        runs,
    })
}

fn run(
    grid: &Grid,
    point: &Point,
    at: usize,
    trace: &TraceInput,
) -> Result<SweepRun, SimulationError> {
    let applications = grid.applications.repeat(grid.together);
    let mut scenario = grid.scenario(&applications, trace.clone());
    scenario.assumptions = point.assumptions(grid.assumptions);
    let (mut results, mut infeasible) = (Vec::new(), Vec::new());
    for &policy in &grid.policies {
        match simulate(&scenario, policy, &mut || 0) {
            Ok(outcome) => results.push(PolicyValues::of(policy, &outcome)),
            Err(SimulationError::SloTooTight { .. }) => infeasible.push(policy),
            Err(error) => return Err(error),
        }
    }
    Ok(SweepRun {
        point: at,
        kind: trace.source(),
        results,
        infeasible,
    })
}
