//! Parameters of the evaluation, and the simulated runs that it needs.

use serde::Serialize;
use tetris_scaler_core::{MAX_ALPHA, Rate};
use tetris_simulation::TraceKind;

use crate::catalog::Application;
use crate::compare::Grid;
use crate::platform::Platform;
use crate::policy::Policy;
use crate::scenario::{LoadSource, Scenario};

/// Minimum length of a run, in seconds.
pub const MIN_SECONDS: u64 = 60;
/// Minimum length of a run by load, by headroom and of figure 14(b), in seconds.
const SHORTEST_S: u64 = 10;
/// Maximum length of a run, in seconds: two hours.
pub const LONGEST_S: u64 = 7_200;
/// Costs of CPU (alpha) beside zero, in bytes per millicore. The paper gives no value.
pub const ALPHAS: [u64; 9] = [
    10_000, 30_000, 100_000, 300_000, 600_000, 800_000, 1_000_000, 3_000_000, 10_000_000,
];
/// Loads of SVT and QA-Audio in runs by load, in requests per second; SS and QA-Text have multiples.
pub const LOADS_OF_SVT: [u64; 5] = [5, 10, 20, 50, 100];
/// Spare capacities below which instances start, in percent of the load; the first is the operator's.
pub const HEADROOMS_PERCENT: [u64; 9] = [5, 10, 20, 30, 40, 50, 60, 80, 100];
/// Loads of all applications together in figure 14(b), in requests per second.
pub const LOADS_RPS: [u64; 6] = [100, 500, 1_000, 2_000, 3_500, 5_000];

/// Parameters of the evaluation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TetrisGrid {
    /// Length of a run in seconds; runs by load, by headroom and those of figure 14(b) have a sixth.
    pub seconds: u64,
    /// Seed.
    pub seed: u64,
    /// Costs of CPU in figure 12, in bytes per millicore, ascending; the first is zero, the paper's
    /// objective (1).
    pub alphas: Vec<u64>,
    /// Time to measure a configuration, in milliseconds (figure 14c).
    pub ms_per_configuration: u64,
}

impl Default for TetrisGrid {
    /// Returns the defaults. 12.5 s for a configuration are measured: 8 of all-MiniLM-L6-v2 took about
    /// 100 s on a cluster's node with two CPUs.
    fn default() -> Self {
        Self {
            seconds: 1_800,
            seed: 1,
            alphas: Self::with_zero(&ALPHAS),
            ms_per_configuration: 12_500,
        }
    }
}

/// Experiment that a run is a part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Experiment {
    /// All applications, one at a time (figures 12, 13 and 14a).
    Overall,
    /// The same with loads from gateways (figure 14a).
    Gateways,
    /// Another cost of CPU (figure 12).
    Alpha,
    /// Applications one at a time, with other loads (figure 13).
    Load,
    /// Applications one at a time, with more headroom (figures 13 and 14a).
    Timely,
    /// All applications together with equal shares of a growing load (figure 14b).
    Cost,
}

/// A run to simulate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Task {
    pub(super) experiment: Experiment,
    /// Application that runs by itself; all together if `None`.
    pub(super) application: Option<Application>,
    pub(super) kind: TraceKind,
    pub(super) policy: Policy,
    pub(super) alpha: u64,
    /// Spare capacity below which instances start, in percent of the load.
    pub(super) headroom_percent: u64,
    /// Load of all applications together in [`Experiment::Cost`], of SVT in [`Experiment::Load`].
    pub(super) rps: Option<u64>,
}

/// Policies of figures 13 and 14(a); the last is the operator's.
const POLICIES: [Policy; 5] = [
    Policy::Infless,
    Policy::Photons,
    Policy::DtsRo,
    Policy::Dts,
    Policy::SharingAware,
];
/// Policies of figure 14(b).
const COMPARED: [Policy; 4] = [
    Policy::Infless,
    Policy::Photons,
    Policy::Dts,
    Policy::SharingAware,
];
/// Policies of runs by load and by headroom.
const BY_LOAD: [Policy; 3] = [Policy::Infless, Policy::Photons, Policy::Dts];
/// Policies with a cost of CPU.
pub(super) const WITH_ALPHA: [Policy; 3] = [Policy::DtsRo, Policy::Dts, Policy::SharingAware];
/// Nodes under other loads: enough for the greatest load under each policy.
const MANY_NODES: usize = 400;

impl TetrisGrid {
    /// Returns zero and other costs of CPU, ascending, each of them once.
    pub fn with_zero(alphas: &[u64]) -> Vec<u64> {
        let mut all = vec![0];
        all.extend(alphas.iter().map(|&alpha| alpha.min(MAX_ALPHA)));
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Returns all runs, those that take the longest first.
    pub(super) fn tasks(&self) -> Vec<Task> {
        let mut tasks = Vec::new();
        let headroom_percent = Platform::default().scale_out_percent;
        for rps in LOADS_RPS.into_iter().rev() {
            tasks.extend(COMPARED.map(|policy| Task {
                experiment: Experiment::Cost,
                application: None,
                kind: TraceKind::Stable,
                policy,
                alpha: 0,
                headroom_percent,
                rps: Some(rps),
            }));
        }
        for rps in LOADS_OF_SVT.into_iter().rev() {
            for application in Application::ALL.into_iter().rev() {
                tasks.extend(BY_LOAD.map(|policy| Task {
                    experiment: Experiment::Load,
                    application: Some(application),
                    kind: TraceKind::Stable,
                    policy,
                    alpha: 0,
                    headroom_percent,
                    rps: Some(rps),
                }));
            }
        }
        for headroom_percent in HEADROOMS_PERCENT {
            for application in Application::ALL.into_iter().rev() {
                tasks.extend(BY_LOAD.map(|policy| Task {
                    experiment: Experiment::Timely,
                    application: Some(application),
                    kind: TraceKind::Stable,
                    policy,
                    alpha: 0,
                    headroom_percent,
                    rps: None,
                }));
            }
        }
        let mut add = |experiment, application, policies: &[Policy], alpha| {
            for kind in TraceKind::ALL {
                tasks.extend(policies.iter().map(|&policy| Task {
                    experiment,
                    application: Some(application),
                    kind,
                    policy,
                    alpha,
                    headroom_percent,
                    rps: None,
                }));
            }
        };
        for application in Application::ALL.into_iter().rev() {
            add(Experiment::Overall, application, &POLICIES, 0);
            add(Experiment::Gateways, application, &POLICIES, 0);
        }
        let costs = self.alphas.iter().filter(|alpha| **alpha > 0);
        for &alpha in costs {
            add(Experiment::Alpha, Application::Ss, &WITH_ALPHA, alpha);
        }
        tasks
    }

    /// Returns the scenario of a run.
    pub(super) fn scenario(&self, task: &Task) -> Scenario {
        let mut grid = Grid {
            seconds: self.seconds,
            warm_up_s: Grid::default().warm_up_s.min(self.seconds / 5),
            seed: self.seed,
            ..Grid::default()
        };
        let platform = &mut grid.assumptions.platform;
        platform.alpha_bytes_per_millicore = task.alpha;
        // A release leaves as much more as with the operator's defaults.
        platform.keep_percent += task.headroom_percent - platform.scale_out_percent;
        platform.scale_out_percent = task.headroom_percent;
        if task.experiment == Experiment::Gateways {
            grid.loads = LoadSource::Gateways;
        }
        if task.rps.is_some() || task.experiment == Experiment::Timely {
            grid.seconds = (self.seconds / 6).max(SHORTEST_S);
            grid.warm_up_s = grid.warm_up_s.min(grid.seconds / 5);
        }
        if let Some(rps) = task.rps {
            grid.nodes = MANY_NODES;
            grid.mean = Rate::from_rps(rps);
        }
        if let (Experiment::Cost, Some(rps)) = (task.experiment, task.rps) {
            // The text names a combination of the applications: they have equal shares.
            grid.assumptions.models.ss_load = 1;
            grid.assumptions.models.qa_text_load = 1;
            grid.mean = Rate::from_micro_rps(rps * 1_000_000 / Application::ALL.len() as u64);
        }
        let applications = match task.application {
            Some(application) => vec![application],
            None => Application::ALL.to_vec(),
        };
        grid.scenario(&applications, task.kind.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_of_cpu_begin_with_zero_and_ascend() {
        assert_eq!(TetrisGrid::with_zero(&[5, 0, 3, 5]), [0, 3, 5]);
        let most = TetrisGrid::with_zero(&[u64::MAX]);
        assert_eq!(most, [0, MAX_ALPHA]);
    }

    #[test]
    fn figure_14b_has_the_load_of_all_applications_together() {
        let grid = TetrisGrid::default();
        for task in grid.tasks() {
            let scenario = grid.scenario(&task);
            let (Experiment::Cost, Some(rps)) = (task.experiment, task.rps) else {
                continue;
            };
            let loads = Application::ALL.map(|application| scenario.mean_of(application));
            let sum: u64 = loads.iter().map(|load| load.micro_rps()).sum();
            assert!(sum.abs_diff(rps * 1_000_000) < 100, "{sum} of {rps}");
        }
    }
}
