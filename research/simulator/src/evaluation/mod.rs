//! The evaluation of Tetris (5.2 to 5.4): figures 9 to 14 over the models of table 4.
//!
//! **Computed:** memory, density and startup from sizes and speeds ([`memory`], [`startup`]), concurrent
//! loads with locks ([`loading`]), and the time of profiling ([`profiling`]). **Simulated:** the
//! applications under generated requests, alpha, and the cost of memory. **Not repeated:** what needs a
//! real engine, the latency of inference (figure 14d). All but [`DecisionTimes`] follows from the seed.

mod alpha;
mod claim;
mod cost;
mod grid;
pub mod loading;
pub mod memory;
mod overall;
pub mod profiling;
mod run;
pub mod startup;
mod timely;

use serde::Serialize;

use crate::error::SimulationError;
use loading::{Loading, loadings};
use memory::{ModelMemory, models};
use profiling::{Profiling, profilings};
use run::run_all;
use startup::{Startup, startups};

pub use alpha::{AlphaChoice, AlphaRow};
pub use claim::{Basis, PERCENT, Relation, TOLERANCE_PERCENT, TOLERANCE_POINTS, TetrisClaim};
pub use cost::CostRow;
pub use grid::{ALPHAS, Experiment, LOADS_OF_SVT, LOADS_RPS, LONGEST_S, MIN_SECONDS, TetrisGrid};
pub use overall::LoadRow;
pub use run::{DecisionTimes, TetrisRun};
pub use timely::TimelyRow;

/// Results of the evaluation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TetrisReport {
    /// Parameters.
    pub grid: TetrisGrid,
    /// Statements of the paper by figure, with the values computed here.
    pub claims: Vec<TetrisClaim>,
    /// Memory of each model (figures 9a, 10 and 11a).
    pub models: Vec<ModelMemory>,
    /// Startup of each model (figures 9b and 11b).
    pub startups: Vec<Startup>,
    /// Configurations by alpha (figure 12).
    pub choices: Vec<AlphaChoice>,
    /// Resources by alpha (figure 12).
    pub alphas: Vec<AlphaRow>,
    /// Savings of each application by load (figure 13).
    pub loads: Vec<LoadRow>,
    /// Policies with the headroom that they need to be timely (figures 13 and 14a).
    pub timely: Vec<TimelyRow>,
    /// Savings by load of all applications (figure 14b).
    pub costs: Vec<CostRow>,
    /// Time of profiling (figure 14c).
    pub profilings: Vec<Profiling>,
    /// Concurrent loads (figure 14e).
    pub loadings: Vec<Loading>,
    /// Simulated runs.
    pub runs: Vec<TetrisRun>,
    /// Durations of decisions, which do not follow from the seed.
    pub decisions: Vec<DecisionTimes>,
}

/// Repeats the evaluation on all cores. `clock` returns microseconds; `progress` gets the numbers of
/// finished and of all runs.
///
/// # Errors
///
/// Fails if a parameter is out of range.
pub fn reproduce(
    grid: TetrisGrid,
    clock: &(dyn Fn() -> u64 + Sync),
    progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<TetrisReport, SimulationError> {
    let models = models();
    let startups = startups();
    let choices = alpha::choices(&grid)?;
    let profilings = profilings(grid.ms_per_configuration);
    let loadings = loadings(grid.seed);
    let (runs, decisions) = run_all(&grid, clock, progress)?;
    let alphas = alpha::rows(&grid, &runs);
    let loads = overall::load_rows(&runs);
    let timely = timely::rows(&runs);
    let costs = cost::rows(&runs);
    let mut claims = memory::claims(&models);
    claims.extend(startup::claims(&startups));
    claims.extend(alpha::claims(&runs, &alphas));
    claims.extend(overall::memory_claims(&runs));
    claims.extend(timely::claims(&timely));
    claims.extend(overall::shape_claims()?);
    claims.extend(overall::late_claims(&runs));
    claims.extend(cost::claims(&costs));
    claims.extend(profiling::claims(&profilings));
    claims.push(inference());
    claims.extend(loading::claims(&loadings));
    claims.sort_by_key(|claim| order(claim.figure));
    Ok(TetrisReport {
        grid,
        claims,
        models,
        startups,
        choices,
        alphas,
        loads,
        timely,
        costs,
        profilings,
        loadings,
        runs,
        decisions,
    })
}

/// Number and letter of a figure.
fn order(figure: &'static str) -> (u32, &'static str) {
    let number = figure.trim_end_matches(|letter: char| letter.is_ascii_lowercase());
    (number.parse().unwrap_or(u32::MAX), figure)
}

/// Statement on figure 14(d).
fn inference() -> TetrisClaim {
    let compared = claim::Compared {
        figure: "14d",
        name: "inference on mapped tensors, slower than on copies".to_owned(),
        unit: PERCENT,
        paper: 0,
        here: None,
        basis: Basis::Absent,
    };
    compared.is(
        Relation::AtMost,
        "the simulator assumes the same latency; BENCHMARKS.md has it measured with real engines \
         (inference on store weights)",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_in_the_order_of_the_paper() {
        let mut figures = ["14a", "9b", "10", "9a", "13"];
        figures.sort_by_key(|figure| order(figure));
        assert_eq!(figures, ["9a", "9b", "10", "13", "14a"]);
    }
}
