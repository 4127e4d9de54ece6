//! Cost of CPU in DTS (figure 12): configurations and resources by alpha.

use serde::Serialize;
use tetris_scaler_core::{MemoryTerm, Rate, Weights, dts};

use super::claim::{Basis, Compared, PERCENT, Relation, TetrisClaim, less};
use super::grid::{Experiment, TetrisGrid, WITH_ALPHA};
use super::run::TetrisRun;
use crate::catalog::{Application, Function, ModelAssumptions};
use crate::error::SimulationError;
use crate::policy::Policy;

/// Configuration that DTS takes for a model with a cost of CPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AlphaChoice {
    /// Cost of CPU, in bytes per millicore.
    pub alpha_bytes_per_millicore: u64,
    /// Name of model and variant.
    pub function: String,
    /// CPU of an instance, in millicores.
    pub cpu_millis: u64,
    /// Maximum batch.
    pub batch: u32,
    /// Number of threads.
    pub concurrency: u32,
    /// Memory of an instance with its tensors, in bytes.
    pub memory_bytes: u64,
    /// Rate of an instance, in millionths of a request per second.
    pub micro_rps: u64,
}

/// Resources of SS with a cost of CPU: reductions in hundredths of a percent, means of the three kinds
/// of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct AlphaRow {
    /// Cost of CPU, in bytes per millicore.
    pub alpha_bytes_per_millicore: u64,
    /// Policy.
    pub policy: Policy,
    /// CPU less than Photons'.
    pub cpu_under_photons: i64,
    /// CPU less than INFless'.
    pub cpu_under_infless: i64,
    /// Memory less than Photons'.
    pub memory_under_photons: i64,
    /// Memory less than INFless'.
    pub memory_under_infless: i64,
    /// Requests beyond the objective.
    pub late: i64,
}

/// Returns the configuration that DTS takes for each function of the applications and each alpha.
pub(super) fn choices(grid: &TetrisGrid) -> Result<Vec<AlphaChoice>, SimulationError> {
    let mut choices = Vec::new();
    for application in Application::ALL {
        for &(model, variant) in application.stages().iter().copied().flatten() {
            let function = Function::try_new(model, variant, &ModelAssumptions::default())?;
            for &alpha in &grid.alphas {
                choices.extend(choice(&function, alpha)?);
            }
        }
    }
    Ok(choices)
}

fn choice(function: &Function, alpha: u64) -> Result<Option<AlphaChoice>, SimulationError> {
    let weights = Weights::try_new(alpha, MemoryTerm::Whole)?;
    let selection = dts(&function.profile, function.slo, Rate::from_rps(1), weights);
    let selection = selection.map_err(|reason| SimulationError::SloTooTight {
        function: function.name.clone(),
        reason,
    })?;
    let chosen = selection.choices.first().map(|choice| choice.configuration);
    let all = function.profile.configurations();
    let chosen = chosen.and_then(|index| all.get(index));
    Ok(chosen.map(|configuration| AlphaChoice {
        alpha_bytes_per_millicore: alpha,
        function: function.name.clone(),
        cpu_millis: configuration.cpu_millis(),
        batch: configuration.batch(),
        concurrency: configuration.concurrency(),
        memory_bytes: configuration.memory_bytes(),
        micro_rps: configuration.rate().micro_rps(),
    }))
}

/// Sums of the runs of SS over the kinds of requests.
#[derive(Clone, Copy, Default)]
struct Sums {
    memory: u64,
    cpu: u64,
    late: u64,
    requests: u64,
}

fn sums(runs: &[TetrisRun], policy: Policy, alpha: u64) -> Sums {
    let is_of = |run: &&TetrisRun| {
        matches!(run.experiment, Experiment::Overall | Experiment::Alpha)
            && run.cell == Application::Ss.name()
            && (run.policy, run.alpha_bytes_per_millicore) == (policy, alpha)
    };
    runs.iter()
        .filter(is_of)
        .fold(Sums::default(), |sum, run| Sums {
            memory: sum.memory + run.memory_bytes.mean,
            cpu: sum.cpu + run.cpu_millis.mean,
            late: sum.late + run.late,
            requests: sum.requests + run.requests,
        })
}

/// Returns the resources of SS for each alpha and policy.
pub(super) fn rows(grid: &TetrisGrid, runs: &[TetrisRun]) -> Vec<AlphaRow> {
    let [photons, infless] = [Policy::Photons, Policy::Infless].map(|policy| sums(runs, policy, 0));
    let mut rows = Vec::new();
    for policy in WITH_ALPHA {
        rows.extend(grid.alphas.iter().filter_map(|&alpha| {
            let here = sums(runs, policy, alpha);
            Some(AlphaRow {
                alpha_bytes_per_millicore: alpha,
                policy,
                cpu_under_photons: less(photons.cpu, here.cpu)?,
                cpu_under_infless: less(infless.cpu, here.cpu)?,
                memory_under_photons: less(photons.memory, here.memory)?,
                memory_under_infless: less(infless.memory, here.memory)?,
                late: super::claim::share(i128::from(here.late), here.requests)?,
            })
        }));
    }
    rows
}

/// Returns the text's statements on figure 12.
pub(super) fn claims(runs: &[TetrisRun], rows: &[AlphaRow]) -> Vec<TetrisClaim> {
    let claim = |name: &str, paper, here| Compared {
        figure: "12",
        name: name.to_owned(),
        unit: PERCENT,
        paper,
        here,
        basis: Basis::Simulated,
    };
    let ro: Vec<&AlphaRow> = rows
        .iter()
        .filter(|row| row.policy == Policy::DtsRo)
        .collect();
    let first = ro.first();
    let best = ro.iter().max_by_key(|row| row.cpu_under_photons);
    let [photons, infless] = [Policy::Photons, Policy::Infless].map(|policy| sums(runs, policy, 0));
    vec![
        claim("SS, CPU of INFless under Photons", 3_900, less(photons.cpu, infless.cpu)).is(
            Relation::Near,
            "CPU of a thread under Photons is assumed",
        ),
        claim("SS, CPU of DTS-RO under Photons, alpha 0", 4_200, first.map(|row| row.cpu_under_photons)).is(
            Relation::Near,
            "objective (1) counts no CPU, so DTS takes the most memory-efficient configuration, which has \
             eight cores",
        ),
        claim("SS, CPU of DTS-RO under Photons, the best alpha", 4_200, best.map(|row| row.cpu_under_photons)).is(
            Relation::Near,
            "with alpha DTS-RO comes to INFless' configuration, the one with the most throughput per CPU, \
             and no choice of configurations takes less CPU than that",
        ),
        claim("SS, memory of DTS-RO over Photons, alpha 0", 0, first.map(|row| -row.memory_under_photons)).is(
            Relation::AtLeast,
            "at alpha 0 DTS has no instance with more memory for each request than Photons has",
        ),
        claim("SS, memory of DTS-RO over Photons, the best alpha", 0, best.map(|row| -row.memory_under_photons)).is(
            Relation::AtLeast,
            "DTS-RO takes fewer instances than Photons",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CPU for a request per second must not rise with its cost, nor may memory fall.
    #[test]
    fn a_higher_alpha_takes_no_more_cpu_and_no_less_memory_for_a_request() {
        let alphas: Vec<u64> = (0..200).map(|step| step * step * 1_000).collect();
        let grid = TetrisGrid {
            alphas,
            ..TetrisGrid::default()
        };
        let choices = choices(&grid).unwrap();
        let mut changes = 0;
        for functions in choices.chunk_by(|a, b| a.function == b.function) {
            for pair in functions.windows(2) {
                let [low, high] = [&pair[0], &pair[1]];
                let side = |value: u64, other: &AlphaChoice| {
                    u128::from(value) * u128::from(other.micro_rps)
                };
                let context = format!("{low:?} {high:?}");
                // A millionth of a request per second is the precision of rates.
                let cpu = (side(high.cpu_millis, low), side(low.cpu_millis, high));
                assert!(cpu.0 <= cpu.1 + cpu.1 / 1_000_000, "{context}");
                let memory = (side(high.memory_bytes, low), side(low.memory_bytes, high));
                assert!(memory.0 + memory.1 / 1_000_000 >= memory.1, "{context}");
                changes += usize::from(low.cpu_millis != high.cpu_millis);
            }
        }
        assert!(changes >= 9, "alpha changed only {changes} choices");
    }
}
