//! Decreased Throughput Selection, Algorithm 1.

use crate::cost::Weights;
use crate::profile::Profile;
use crate::rate::{Rate, Slo};
use crate::selection::{Choice, Selection, SloTooTight};

/// Selects instances that carry `residual` within `slo`, by Decreased Throughput Selection exactly
/// as published.
///
/// Algorithm 1 sorts by normalized throughput (line 2). While load remains, it takes the first
/// configuration that meets the objective (lines 3 to 11). The loop does not depend on the
/// remaining load, so it always takes the same configuration: `ceil(R w^-1)` instances of it, with
/// `w = b p / l`. This function computes the number directly, as a loop over a hostile load would
/// not end. The last instance overshoots by up to its own rate; [`solve`](crate::solve) avoids
/// that.
///
/// # Errors
///
/// Fails if no configuration meets `slo`.
pub fn dts(
    profile: &Profile,
    slo: Slo,
    residual: Rate,
    weights: Weights,
) -> Result<Selection, SloTooTight> {
    let best = profile
        .feasible(slo)
        .min_by(|(_, a), (_, b)| weights.by_normalized_throughput(a, b));
    let Some((configuration, best)) = best else {
        if residual.is_zero() {
            return Ok(Selection::default());
        }
        return Err(SloTooTight {
            slo_us: slo.us(),
            least_slo_us: profile.least_slo_us(),
        });
    };
    // Latencies are at most an hour, so a rate is at least one millionth.
    let count = residual
        .micro_rps()
        .div_ceil(best.rate().micro_rps().max(1));
    let choice = Choice {
        configuration,
        count,
    };
    Ok(Selection::new(profile, weights, vec![choice]))
}
