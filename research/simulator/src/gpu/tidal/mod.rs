//! The evaluation of TIDAL with traces (7.3, figure 19): sixteen functions on eight GPUs.
//!
//! **From the paper:** functions, tasks and their input lengths (table 2), six hours, the timeout,
//! both keep-alives, and the costs ([`TidalCosts::PAPER`]). **Assumed, and swept:** rates and shapes
//! of the traces, the room of idle instances, the scheduling, the length of answers, and which
//! functions have the templates.

mod claims;
mod costs;
mod functions;
mod kind;
mod outcome;
mod setting;
mod sweep;
mod system;
#[cfg(test)]
mod tests;

use serde::Serialize;
use tetris_simulation::TraceKind;

pub use claims::TidalClaim;
pub use costs::{Base, BaseCosts, TidalCosts};
pub use kind::FunctionKind;
pub use outcome::{STAGES, TidalOutcome};
pub use setting::{GpuRoom, KeepAlive, Scheduling, TemplateSetting, TidalSetting};
pub use system::TidalSystem;

/// Parameters of a reproduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TidalGrid {
    /// Requests per minute of all functions together, on average.
    pub per_minute: u64,
    /// Length of each run in seconds.
    pub seconds: u64,
    /// Seed.
    pub seed: u64,
}

impl Default for TidalGrid {
    fn default() -> Self {
        Self {
            per_minute: 260,
            seconds: 6 * 3_600,
            seed: 1,
        }
    }
}

/// A system in a setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TidalRun {
    /// System.
    pub system: TidalSystem,
    /// Result.
    pub outcome: TidalOutcome,
}

/// All systems in a setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TidalRuns {
    /// Difference from the main setting.
    pub case: String,
    /// Setting.
    pub setting: TidalSetting,
    /// Runs, in the order of the paper's figure.
    pub runs: Vec<TidalRun>,
}

impl TidalRuns {
    /// Run of a system.
    pub fn find(&self, system: TidalSystem) -> Option<&TidalRun> {
        self.runs.iter().find(|run| run.system == system)
    }

    /// Change of a system's 95th percentile against `ServerlessLLM`, in hundredths of a percent.
    pub fn p95_change(&self, system: TidalSystem) -> Option<i64> {
        let p95 = |system| Some(self.find(system)?.outcome.percentile_us(95));
        let before = p95(TidalSystem::ServerlessLlm)?;
        Some(claims::change(before, p95(system)?))
    }
}

/// The figure, the paper's statements, and the sweep.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TidalReport {
    /// Parameters.
    pub grid: TidalGrid,
    /// Figure 19a: keep-alive of the loading time.
    pub short: TidalRuns,
    /// Figure 19b: keep-alive of 10 s.
    pub long: TidalRuns,
    /// The paper's statements beside the simulation.
    pub claims: Vec<TidalClaim>,
    /// Runs with other assumptions.
    pub sweep: Vec<TidalRuns>,
}

impl TidalGrid {
    /// The setting of figure 19a.
    pub const fn setting(&self) -> TidalSetting {
        TidalSetting {
            costs: TidalCosts::PAPER,
            per_minute: self.per_minute,
            rates: [1, 5, 25],
            turn: 0,
            trace: TraceKind::Bursty,
            seconds: self.seconds,
            timeout_s: 60,
            keep_alive: KeepAlive::LoadingTime,
            gpus: 8,
            room: GpuRoom::OneInstance,
            holds_idle: false,
            scheduling: Scheduling::Soonest,
            more_tokens: 0,
            router_us: 0,
            templates: TemplateSetting {
                kind: FunctionKind {
                    base: Base::Llama2,
                    dynamic: false,
                },
                bytes: 6_000_000_000,
                shared: true,
            },
            seed: self.seed,
        }
    }
}

/// Repeats the evaluation. Calls `progress` with the number of settings done and of all.
pub fn reproduce(grid: TidalGrid, progress: &dyn Fn(usize, usize)) -> TidalReport {
    let setting = grid.setting();
    let cases = sweep::cases(&setting);
    let count = cases.len() + 2;
    let mut done = 0;
    let mut of = |case: String, setting: TidalSetting| {
        let runs = simulate(case, setting);
        done += 1;
        progress(done, count);
        runs
    };
    let short = of("keep-alive of the loading time".to_owned(), setting.clone());
    let long_setting = TidalSetting {
        keep_alive: KeepAlive::Seconds(10),
        ..setting.clone()
    };
    let long = of("keep-alive of 10 s".to_owned(), long_setting);
    let sweep = cases
        .into_iter()
        .map(|(case, entry)| of(case, entry))
        .collect();
    TidalReport {
        claims: claims::claims(&setting, &short, &long),
        grid,
        short,
        long,
        sweep,
    }
}

/// Runs all systems in one setting, on the same requests.
pub fn simulate(case: String, setting: TidalSetting) -> TidalRuns {
    let arrivals = functions::arrivals(&setting);
    let systems = TidalSystem::ALL.into_iter();
    let fitting = systems.filter(|&system| {
        // Only one scheduler knows of parts that are there already.
        system != TidalSystem::TidalDk6g || setting.scheduling == Scheduling::Soonest
    });
    let runs = fitting.map(|system| {
        let records = system::run(&setting, system, &arrivals);
        let outcome = TidalOutcome::of(&setting, system, &records);
        TidalRun { system, outcome }
    });
    TidalRuns {
        case,
        runs: runs.collect(),
        setting,
    }
}
