//! Which instances are not needed any more.

mod peak;
mod policy;

use std::cmp::Reverse;

use serde::Serialize;
use thiserror::Error;

use crate::configuration::Configuration;
use crate::error::FieldError;
use crate::rate::{Rate, Slo};

pub use peak::{LoadPeak, PeakError};
pub use policy::{ScaleInConfig, ScaleInPolicy};

/// An instance that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    /// Breaks ties: of equals, the first by name goes.
    pub name: String,
    /// How it runs.
    pub configuration: Configuration,
    /// The requests that it served of late.
    pub load: Rate,
}

/// What to release.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Release {
    /// Indices of the instances to release, in this order.
    pub release: Vec<usize>,
    /// What those that stay and meet the objective carry.
    pub remaining: Rate,
    /// What they have to carry: the load and the headroom.
    pub needed: Rate,
    /// Why no more go.
    pub because: Because,
}

/// Why instances stay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Because {
    /// No window of measurements is complete yet.
    #[default]
    TooEarly,
    /// The load needs each of those that stay.
    Load,
    /// The policy's least number of instances.
    Minimum,
    /// The policy's most releases at once.
    Step,
    /// Those that meet the objective carry less than the load and its headroom as it is. See `needed` and
    /// `remaining`.
    Overloaded,
}

/// Measurements or policies that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ScaleInError {
    /// A field of the policy is out of range.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// Scaling in would make scaling out necessary.
    #[error(
        "`keep_permille` is {keep_permille}, must exceed `scale_out_permille`, {scale_out_permille}, or instances come and go"
    )]
    NoHysteresis {
        /// Headroom that must remain after a release.
        keep_permille: u32,
        /// Headroom below which the scaler starts instances.
        scale_out_permille: u32,
    },
}

/// Which of `running` to release (Tetris 3.1: "selectively releases the least-loaded instances without
/// violating the SLO").
///
/// `peak` is the largest load of a whole window, from [`LoadPeak::at`]; without one, nothing goes.
///
/// **Guarantees.** What stays and meets `slo` carries `peak` and the policy's headroom, each instance within
/// its profile's rate. If it does not even now, nothing goes. The headroom exceeds that below which
/// instances are started, and the peak is of a whole window, so a release is not followed by a start unless
/// the load rises above that peak.
///
/// **Order.** Instances that break the objective go first, as nobody counts on them. Then the least loaded
/// go; of equal ones, that with most own memory, then the first by name. One that is needed is passed over
/// for the next, which may be smaller.
pub fn scale_in(
    running: &[Running],
    slo: Slo,
    peak: Option<Rate>,
    policy: &ScaleInPolicy,
) -> Release {
    let mut result = Release {
        remaining: running.iter().map(|one| one.useful(slo)).sum(),
        ..Release::default()
    };
    let Some(peak) = peak else {
        return result;
    };
    result.needed = policy.needed(peak);
    if result.remaining < result.needed {
        result.because = Because::Overloaded;
        return result;
    }
    result.because = Because::Load;
    let mut order: Vec<(usize, &Running)> = running.iter().enumerate().collect();
    order.sort_by(|(_, a), (_, b)| a.rank(slo).cmp(&b.rank(slo)));
    for (index, one) in order {
        if let Some(because) = limit(&result, running.len(), policy) {
            result.because = because;
            break;
        }
        let spare = result.remaining.minus(result.needed);
        if one.useful(slo) <= spare {
            result.remaining = result.remaining.minus(one.useful(slo));
            result.release.push(index);
        }
    }
    result
}

impl Running {
    /// What it carries within the objective.
    fn useful(&self, slo: Slo) -> Rate {
        if self.configuration.meets(slo) {
            self.configuration.rate()
        } else {
            Rate::ZERO
        }
    }

    /// Ascending by what is lost.
    fn rank(&self, slo: Slo) -> (bool, Rate, Reverse<u64>, &str) {
        let own = Reverse(self.configuration.own_bytes());
        (self.configuration.meets(slo), self.load, own, &self.name)
    }
}

fn limit(result: &Release, running: usize, policy: &ScaleInPolicy) -> Option<Because> {
    let config = policy.config();
    let stay = running.saturating_sub(result.release.len());
    if stay <= config.min_instances as usize {
        Some(Because::Minimum)
    } else if result.release.len() >= config.max_releases as usize {
        Some(Because::Step)
    } else {
        None
    }
}
