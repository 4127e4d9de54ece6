//! Scaling in: release of instances that the load does not need.

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

/// A running instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    /// Name of the instance; among equal instances, the first by name is released.
    pub name: String,
    /// Its configuration.
    pub configuration: Configuration,
    /// Load that it served recently.
    pub load: Rate,
}

/// Instances to release.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Release {
    /// Indices of the instances to release, in order.
    pub release: Vec<usize>,
    /// Rate of the remaining instances that meet the objective.
    pub remaining: Rate,
    /// Rate they must carry: the load with headroom.
    pub needed: Rate,
    /// The reason no more instances are released.
    pub because: Because,
}

/// The reason instances stay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Because {
    /// No complete window of measurements yet.
    #[default]
    TooEarly,
    /// The load needs each remaining instance.
    Load,
    /// The policy's minimum number of instances.
    Minimum,
    /// The policy's maximum number of releases at once.
    Step,
    /// The instances that meet the objective already carry less than the load with headroom. See
    /// `needed` and `remaining`.
    Overloaded,
}

/// Invalid measurements or policies.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ScaleInError {
    /// A field of the policy out of range.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// A policy in which scaling in would trigger scaling out.
    #[error(
        "`keep_percent` is {keep_percent}, expected more than `scale_out_percent`, {scale_out_percent}, or instances come and go"
    )]
    NoHysteresis {
        /// Headroom that must remain after a release, in thousandths.
        keep_percent: u32,
        /// Headroom below which the scaler starts instances, in thousandths.
        scale_out_percent: u32,
    },
}

/// Selects the `running` instances to release (Tetris 3.1: "selectively releases the least-loaded
/// instances without violating the SLO").
///
/// `peak` is the largest load of a whole window, from [`LoadPeak::at`]; without one, nothing is
/// released.
///
/// **Guarantees.** The remaining instances that meet `slo` carry `peak` with the policy's headroom,
/// each within its profile's rate. If they do not even before a release, nothing is released. The
/// headroom exceeds that for starting instances, and the peak covers a whole window. So no start
/// follows a release unless the load rises above that peak.
///
/// **Order.** Instances that break the objective go first, as they count for nothing. Then the
/// least loaded go; among equal ones, the one with the most private memory, then the first by name.
/// An instance that is needed is skipped for the next, which may be smaller.
pub fn scale_in(
    running: &[Running],
    slo: Slo,
    peak: Option<Rate>,
    policy: &ScaleInPolicy,
) -> Release {
    let mut result = Release {
        remaining: running.iter().map(|running| running.useful(slo)).sum(),
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
    for (index, entry) in order {
        if let Some(because) = limit(&result, running.len(), policy) {
            result.because = because;
            break;
        }
        let spare = result.remaining.minus(result.needed);
        if entry.useful(slo) <= spare {
            result.remaining = result.remaining.minus(entry.useful(slo));
            result.release.push(index);
        }
    }
    result
}

impl Running {
    /// Rate that it carries within the objective.
    fn useful(&self, slo: Slo) -> Rate {
        if self.configuration.meets(slo) {
            self.configuration.rate()
        } else {
            Rate::ZERO
        }
    }

    /// Sort key, ascending by loss.
    fn rank(&self, slo: Slo) -> (bool, Rate, Reverse<u64>, &str) {
        let own_bytes = Reverse(self.configuration.own_bytes());
        (
            self.configuration.meets(slo),
            self.load,
            own_bytes,
            &self.name,
        )
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
