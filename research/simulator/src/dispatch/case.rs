//! Functions with instances of unequal size.

use tetris_scaler_core::{Configuration, Rate, Slo};
use tetris_simulation::Rng;

use super::poisson::Poisson;
use crate::catalog::{Function, MODELS, ModelAssumptions, PaperModel};
use crate::error::SimulationError;

/// Fewest and most instances of a function.
const INSTANCES: (u64, u64) = (4, 8);
/// Streams of a function's random numbers.
const CONFIGURATIONS: u64 = 0;
const ARRIVALS: u64 = 1;
const LATENCIES: u64 = 2;
const GATEWAYS: u64 = 3;
const STREAMS: u64 = 4;

/// The model of the function with that number: those of the catalog, each in turn.
pub(super) fn model_of(number: u64) -> PaperModel {
    let index = (number % MODELS.len() as u64) as usize;
    let [first, ..] = MODELS;
    MODELS.get(index).copied().unwrap_or(first)
}

/// A function with its instances.
#[derive(Clone, Debug)]
pub(super) struct FunctionCase {
    pub(super) slo: Slo,
    pub(super) instances: Vec<Configuration>,
    /// Longest wait of a batch to fill, in percent of what its latency leaves; `None` for the operator's.
    pub(super) batch_wait_percent: Option<u64>,
    seed: u64,
    number: u64,
}

impl FunctionCase {
    /// Creates the function with that number, and instances of any of its model's configurations that meet the objective.
    pub(super) fn try_new(
        number: u64,
        seed: u64,
        batch_wait_percent: Option<u64>,
    ) -> Result<Self, SimulationError> {
        let function = Function::try_new(model_of(number), "", &ModelAssumptions::default())?;
        let slo = function.slo;
        let feasible: Vec<Configuration> = function
            .profile
            .feasible(slo)
            .map(|(_, feasible)| *feasible)
            .collect();
        let mut case = Self {
            slo,
            instances: Vec::new(),
            batch_wait_percent,
            seed,
            number,
        };
        let mut rng = case.rng(CONFIGURATIONS);
        let count = rng.between(INSTANCES.0, INSTANCES.1);
        let chosen =
            (0..count).filter_map(|_| feasible.get(rng.below(feasible.len() as u64) as usize));
        case.instances = chosen.copied().collect();
        Ok(case)
    }

    /// Creates the function with these instances.
    pub(super) const fn of(slo: Slo, instances: Vec<Configuration>, seed: u64) -> Self {
        Self {
            slo,
            instances,
            batch_wait_percent: None,
            seed,
            number: 0,
        }
    }

    /// Longest wait of a batch to fill on an instance, in microseconds.
    pub(super) fn batch_wait_us(&self, configuration: &Configuration) -> u64 {
        match self.batch_wait_percent {
            Some(percent) if configuration.batch() > 1 => {
                self.slo.us().saturating_sub(configuration.latency_us()) * percent / 100
            }
            _ => configuration.batch_wait_us(self.slo),
        }
    }

    /// Returns the requests, at `load_percent` of the instances' capacity.
    pub(super) fn arrivals(&self, load_percent: u64) -> Poisson {
        let capacity: Rate = self.instances.iter().map(Configuration::rate).sum();
        let micro_rps = u128::from(capacity.micro_rps()) * u128::from(load_percent) / 100;
        let micro_rps = u64::try_from(micro_rps).unwrap_or(u64::MAX);
        Poisson::new(Rate::from_micro_rps(micro_rps), self.rng(ARRIVALS))
    }

    /// Random numbers of latencies.
    pub(super) fn latencies(&self) -> Rng {
        self.rng(LATENCIES)
    }

    /// Random numbers of the gateways to which requests come.
    pub(super) fn gateways(&self) -> Rng {
        self.rng(GATEWAYS)
    }

    fn rng(&self, stream: u64) -> Rng {
        Rng::new(self.seed, self.number * STREAMS + stream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_have_unequal_instances_that_meet_the_objective() {
        let unequal = (0..50).filter(|&number| {
            let case = FunctionCase::try_new(number, 1, None).unwrap();
            assert!((4..=8).contains(&case.instances.len()));
            assert!(
                case.instances
                    .iter()
                    .all(|instance| instance.meets(case.slo))
            );
            let rates = || case.instances.iter().map(Configuration::rate);
            rates().max() > rates().min().map(|least| least.times(2))
        });
        let unequal = unequal.count();
        assert!(unequal >= 30, "{unequal} of 50");
    }
}
