//! How many instances of which configuration.

use serde::Serialize;
use thiserror::Error;

use crate::cost::Weights;
use crate::profile::Profile;
use crate::rate::Rate;

/// `count` instances of one configuration: an `x_i` above zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Choice {
    /// Index of the configuration in the profile.
    pub configuration: usize,
    /// How many instances, at least 1.
    pub count: u64,
}

/// New instances of one model: S of Algorithm 1, or a solution of the integer program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Selection {
    /// By index of the configuration, ascending.
    pub choices: Vec<Choice>,
    /// What they carry together.
    pub rate: Rate,
    /// What they cost by the weights used, in bytes.
    pub cost: u128,
    /// Their CPU, in millicores.
    pub cpu_millis: u128,
    /// Their memory if they share nothing, in bytes.
    pub memory_bytes: u128,
}

impl Selection {
    /// Sums up `choices` over `profile`. What is not in the profile is left out.
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

    /// How many instances; saturates.
    pub fn instances(&self) -> u64 {
        let counts = self.choices.iter().map(|choice| choice.count);
        counts.fold(0, u64::saturating_add)
    }
}

/// No configuration of a profile will do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error, Serialize)]
#[error(
    "no configuration meets an objective of {slo_us} us; the smallest that one meets is {least_slo_us} us"
)]
pub struct SloTooTight {
    /// What was asked, in microseconds.
    pub slo_us: u64,
    /// The smallest objective that some configuration meets, in microseconds.
    pub least_slo_us: u64,
}

/// What of `load` the instances that run do not carry: R.
pub const fn residual(load: Rate, running: Rate) -> Rate {
    load.minus(running)
}
