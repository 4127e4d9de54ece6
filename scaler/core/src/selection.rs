//! Selection: configurations with their numbers of instances.

use serde::Serialize;
use thiserror::Error;

use crate::cost::Weights;
use crate::profile::Profile;
use crate::rate::Rate;

/// A number of instances of one configuration: an `x_i` above zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Choice {
    /// Index of the configuration in the profile.
    pub configuration: usize,
    /// Number of instances, at least 1.
    pub count: u64,
}

/// New instances of one model: S of Algorithm 1, or a solution of the integer program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Selection {
    /// Choices by index of the configuration, ascending.
    pub choices: Vec<Choice>,
    /// Rate that they carry together.
    pub rate: Rate,
    /// Cost by the weights used, in bytes.
    pub cost: u128,
    /// CPU, in millicores.
    pub cpu_millis: u128,
    /// Memory without sharing, in bytes.
    pub memory_bytes: u128,
}

impl Selection {
    /// Sums up `choices` over `profile`, without those that the profile does not have.
    pub(crate) fn new(profile: &Profile, weights: Weights, mut choices: Vec<Choice>) -> Self {
        choices.retain(|choice| choice.count > 0);
        choices.sort_unstable();
        let mut sum = Self::default();
        for choice in &choices {
            let Some(one) = profile.configurations().get(choice.configuration) else {
                continue;
            };
            let count = u128::from(choice.count);
            sum.rate = sum.rate.plus(one.rate().times(choice.count));
            sum.cost += u128::from(weights.of(one)) * count;
            sum.cpu_millis += u128::from(one.cpu_millis()) * count;
            sum.memory_bytes += u128::from(one.memory_bytes()) * count;
        }
        sum.choices = choices;
        sum
    }

    /// Number of instances; saturates.
    pub fn instances(&self) -> u64 {
        let counts = self.choices.iter().map(|choice| choice.count);
        counts.fold(0, u64::saturating_add)
    }
}

/// No configuration of a profile meets the objective.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error, Serialize)]
#[error(
    "no configuration meets an objective of {slo_us} us; the smallest that one meets is {least_slo_us} us"
)]
pub struct SloTooTight {
    /// Objective given, in microseconds.
    pub slo_us: u64,
    /// Smallest objective that some configuration meets, in microseconds.
    pub least_slo_us: u64,
}

/// Load that the running instances do not carry: R.
pub const fn residual(load: Rate, running: Rate) -> Rate {
    load.minus(running)
}
