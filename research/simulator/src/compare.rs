//! Runs of all policies on all applications.

use serde::Serialize;
use tetris_scaler_core::Rate;
use tetris_simulation::{TraceKind, TraceSource};

use crate::catalog::{Application, MODELS, PaperModel};
use crate::engine::simulate;
use crate::error::SimulationError;
use crate::paper::{Checked, Saving, check, savings};
use crate::policy::Policy;
use crate::policy_run::PolicyRun;
use crate::recorded::{RecordedLoads, TraceInput};
use crate::scenario::{Assumptions, LoadSource, Scenario};

/// Parameters of all runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Grid {
    /// Applications, each run alone.
    pub applications: Vec<Application>,
    /// Number of copies of each that also run together, each with its own requests.
    pub together: usize,
    /// Kinds of generated traces.
    pub kinds: Vec<TraceKind>,
    /// Requests of a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded: Option<RecordedLoads>,
    /// Policies.
    pub policies: Vec<Policy>,
    /// Mean load of SVT; those of the others are multiples of it.
    pub mean: Rate,
    /// Length of a trace, in seconds.
    pub seconds: u64,
    /// Time at the start that does not count, in seconds.
    pub warm_up_s: u64,
    /// Number of nodes.
    pub nodes: usize,
    /// Seed of traces, branches and latencies.
    pub seed: u64,
    /// Source of the loads that the scaler sees.
    pub loads: LoadSource,
    /// Invented inputs, and the operator's defaults.
    pub assumptions: Assumptions,
}

impl Default for Grid {
    /// Returns the paper's testbed of eight nodes, and 30 minutes, which are three days of the
    /// periodic trace.
    fn default() -> Self {
        Self {
            applications: Application::ALL.to_vec(),
            together: 1,
            kinds: TraceKind::ALL.to_vec(),
            recorded: None,
            policies: Policy::ALL.to_vec(),
            mean: Rate::from_rps(20),
            seconds: 1_800,
            warm_up_s: 60,
            nodes: 8,
            seed: 1,
            loads: LoadSource::default(),
            assumptions: Assumptions::default(),
        }
    }
}

/// Name of the cell in which all applications run together.
pub const TOGETHER: &str = "all";

/// All runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Comparison {
    /// Parameters of the runs.
    pub grid: Grid,
    /// Models, with the assumptions about them.
    pub models: Vec<PaperModel>,
    /// Runs by cell, requests and policy.
    pub runs: Vec<PolicyRun>,
    /// Numbers of the paper beside the simulated ones.
    pub claims: Vec<Checked>,
    /// Memory saved per 100 requests/s, beside figure 14b.
    pub savings: Vec<Saving>,
}

impl Grid {
    /// Returns the names of cells and their applications.
    pub fn cells(&self) -> Vec<(&'static str, Vec<Application>)> {
        let cells = self
            .applications
            .iter()
            .map(|&application| (application.name(), vec![application]));
        let together = self.applications.repeat(self.together);
        let together = (!together.is_empty()).then_some((TOGETHER, together));
        cells.chain(together).collect()
    }

    /// Returns the requests of all runs.
    pub fn traces(&self) -> Vec<TraceInput> {
        let generated = self.kinds.iter().map(|&kind| kind.into());
        let recorded = self.recorded.clone().map(TraceInput::Recorded);
        generated.chain(recorded).collect()
    }

    /// Returns the labels of the requests of all runs.
    pub fn sources(&self) -> Vec<TraceSource> {
        self.traces().iter().map(TraceInput::source).collect()
    }

    /// Returns the scenario of a cell.
    pub fn scenario(&self, applications: &[Application], trace: TraceInput) -> Scenario {
        Scenario {
            applications: applications.to_vec(),
            trace,
            mean: self.mean,
            seconds: self.seconds,
            warm_up_s: self.warm_up_s,
            nodes: self.nodes,
            seed: self.seed,
            loads: self.loads,
            assumptions: self.assumptions,
        }
    }
}

/// Runs all of `grid`. `clock` returns microseconds; see [`simulate`].
///
/// # Errors
///
/// Fails if a parameter is out of range.
pub fn compare(grid: Grid, clock: &mut dyn FnMut() -> u64) -> Result<Comparison, SimulationError> {
    let mut runs = Vec::new();
    for (cell, applications) in grid.cells() {
        for trace in grid.traces() {
            let kind = trace.source();
            let scenario = grid.scenario(&applications, trace);
            for &policy in &grid.policies {
                let outcome = simulate(&scenario, policy, clock)?;
                runs.push(PolicyRun {
                    cell,
                    kind,
                    policy,
                    outcome,
                });
            }
        }
    }
    let loads = grid.scenario(&Application::ALL, TraceKind::Stable.into());
    Ok(Comparison {
        claims: check(&runs),
        savings: savings(&runs, |entry| loads.mean_of(entry)),
        models: MODELS.to_vec(),
        runs,
        grid,
    })
}
