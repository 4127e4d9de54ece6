//! The paper's figures beside those of the simulation.

use serde::Serialize;

use super::outcome::FaasOutcome;

/// A figure of the paper: a change in percent, in units of 0.01.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FaasClaim {
    /// Figure of the paper.
    pub figure: &'static str,
    /// Subject, and what it is compared with.
    pub name: String,
    /// The paper's change, in hundredths of a percent.
    pub paper: i64,
    /// The simulation's change, in hundredths of a percent.
    pub simulated: i64,
}

impl FaasClaim {
    /// Returns true if the simulation is within 5 points of the paper.
    pub const fn is_close(&self) -> bool {
        self.paper.abs_diff(self.simulated) <= 500
    }
}

/// A figure of an outcome.
pub(super) type Field = fn(&FaasOutcome) -> u64;
/// A figure of an outcome, with its name.
pub(super) type Named = (&'static str, Field);

pub(super) const LATENCY: Named = ("latency", |entry| entry.mean_latency_us);
pub(super) const MISSES: Named = ("misses", |entry| entry.misses_per_10000);
pub(super) const VARIANCE: Named = ("variance", |entry| entry.variance_ms2);
pub(super) const FALSE_MISSES: Named = ("false misses", |entry| entry.false_misses_per_10000);
pub(super) const COPIES: Named = ("copies of the top model", |entry| entry.top_copies_milli);

/// Change from `before` to `after`, in hundredths of a percent.
pub(super) fn change(before: u64, after: u64) -> i64 {
    let before = i128::from(before.max(1));
    let change = (i128::from(after) - before) * 10_000 / before;
    i64::try_from(change).unwrap_or(i64::MAX)
}
