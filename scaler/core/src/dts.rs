//! Decreased Throughput Selection, Algorithm 1.

use crate::cost::Weights;
use crate::profile::Profile;
use crate::rate::{Rate, Slo};
use crate::selection::{Choice, Selection, SloTooTight};

/// Decreased Throughput Selection exactly as published: which instances carry `residual` within `slo`.
///
/// Algorithm 1 sorts by normalised throughput (line 2) and then takes, as long as load remains, the
/// first configuration that meets the objective (lines 3 to 11). Nothing in the loop depends on how
/// much remains, so it is the same one every time: `ceil(R w^-1)` instances of it, with `w = b p / l`.
/// That is computed at once, since a loop over a hostile load would not end. The last pick overshoots
/// by up to one instance; [`solve`](crate::solve) does not.
pub fn dts(
    profile: &Profile,
    slo: Slo,
    residual: Rate,
    weights: Weights,
) -> Result<Selection, SloTooTight> {
    let best = profile
        .feasible(slo)
        .min_by(|(_, a), (_, b)| weights.by_normalised_throughput(a, b));
    let Some((configuration, best)) = best else {
        if residual.is_zero() {
            return Ok(Selection::default());
        }
        return Err(SloTooTight {
            slo_us: slo.us(),
            least_slo_us: profile.least_slo_us(),
        });
    };
    // A rate is at least one millionth: latencies end at an hour.
    let count = residual
        .micro_rps()
        .div_ceil(best.rate().micro_rps().max(1));
    let choice = Choice {
        configuration,
        count,
    };
    Ok(Selection::new(profile, weights, vec![choice]))
}
