//! Simulated runs, and the durations of their decisions.

use std::collections::BTreeMap;

use serde::Serialize;
use tetris_simulation::TraceKind;

use super::grid::{Experiment, Task, TetrisGrid};
use crate::compare::TOGETHER;
use crate::engine::simulate;
use crate::error::SimulationError;
use crate::outcome::{RunOutcome, Samples};
use crate::parallel::in_parallel;
use crate::policy::Policy;

/// A run. All of it follows from the seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TetrisRun {
    /// Experiment.
    pub experiment: Experiment,
    /// Name of the application, or "all" for all of them together.
    pub cell: &'static str,
    /// Kind of the trace.
    pub kind: TraceKind,
    /// Policy.
    pub policy: Policy,
    /// Cost of CPU, in bytes per millicore.
    pub alpha_bytes_per_millicore: u64,
    /// Spare capacity below which instances start, in percent of the load.
    pub headroom_percent: u64,
    /// Load of all applications together in figure 14(b), or of SVT in runs by load, in requests per
    /// second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rps: Option<u64>,
    /// Number of requests.
    pub requests: u64,
    /// Number of requests beyond the objective.
    pub late: u64,
    /// Memory of instances and tensors, in bytes.
    pub memory_bytes: Samples,
    /// CPU of instances, in millicores.
    pub cpu_millis: Samples,
    /// Number of instances.
    pub instances: Samples,
    /// Number of started instances.
    pub starts: u64,
    /// Number of them that read weights from the disk.
    pub cold_starts: u64,
    /// Number of instances without room, counted at each attempt.
    pub unplaced: u64,
    /// Number of decisions that had to start instances.
    pub decisions: u64,
}

impl TetrisRun {
    fn of(task: &Task, outcome: &RunOutcome) -> Self {
        Self {
            experiment: task.experiment,
            cell: task
                .application
                .map_or(TOGETHER, |application| application.name()),
            kind: task.kind,
            policy: task.policy,
            alpha_bytes_per_millicore: task.alpha,
            headroom_percent: task.headroom_percent,
            rps: task.rps,
            requests: outcome.requests,
            late: outcome.violations,
            memory_bytes: outcome.memory_bytes,
            cpu_millis: outcome.cpu_millis,
            instances: outcome.instances,
            starts: outcome.starts,
            cold_starts: outcome.cold_starts,
            unplaced: outcome.unplaced,
            decisions: outcome.decisions,
        }
    }

    /// Requests beyond the objective in hundredths of a percent.
    pub fn late_share(&self) -> i64 {
        super::claim::share(i128::from(self.late), self.requests).unwrap_or(0)
    }
}

/// Durations of decisions that start instances, measured on this machine: the only figures that do not
/// follow from the seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct DecisionTimes {
    /// Experiment.
    pub experiment: Experiment,
    /// Policy.
    pub policy: Policy,
    /// Number of decisions.
    pub decisions: u64,
    /// Mean duration in microseconds.
    pub mean_us: u64,
    /// Longest duration in microseconds.
    pub most_us: u64,
}

/// Simulates all runs of `grid` on all cores. `clock` returns microseconds.
pub(super) fn run_all(
    grid: &TetrisGrid,
    clock: &(dyn Fn() -> u64 + Sync),
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<(Vec<TetrisRun>, Vec<DecisionTimes>), SimulationError> {
    let numbered: Vec<(usize, Task)> = grid.tasks().into_iter().enumerate().collect();
    let mut done = in_parallel(&numbered, progress, |&(number, task)| {
        let outcome = simulate(&grid.scenario(&task), task.policy, &mut || clock());
        Some(outcome.map(|outcome| (number, TetrisRun::of(&task, &outcome), outcome.decision_us)))
    })?;
    done.sort_by_key(|&(number, ..)| number);
    let times = decision_times(&done);
    Ok((done.into_iter().map(|(_, run, _)| run).collect(), times))
}

fn decision_times(runs: &[(usize, TetrisRun, Samples)]) -> Vec<DecisionTimes> {
    let mut sums: BTreeMap<(Experiment, Policy), [u64; 3]> = BTreeMap::new();
    for (_, run, samples) in runs {
        let key = (run.experiment, run.policy);
        let [count, sum_us, most_us] = sums.entry(key).or_default();
        *count += run.decisions;
        *sum_us += run.decisions.saturating_mul(samples.mean);
        *most_us = samples.peak.max(*most_us);
    }
    let times =
        sums.into_iter().map(
            |((experiment, policy), [count, sum_us, most_us])| DecisionTimes {
                experiment,
                policy,
                decisions: count,
                mean_us: sum_us.checked_div(count).unwrap_or(0),
                most_us,
            },
        );
    times.collect()
}
