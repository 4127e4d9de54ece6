//! Rules that skip settings because measurements rule them out.
//!
//! **Assumptions.** With the same CPU, (A1) latency does not fall when the batch size or the
//! concurrency grows; (A2) private memory does not fall when the concurrency grows; (A3) throughput
//! has one peak over the concurrency: once it has stopped growing it does not grow again. They hold
//! for servers that share a fixed amount of CPU among threads. There is no assumption about more
//! CPU, or about throughput over the batch size.
//!
//! **Rules.**
//! 1. *Late.* A configuration with the same CPU and at most the same batch size and concurrency
//!    exceeds the bound by more than [`TOLERANCE_PERCENT`]. Then so does this one (A1). The bound
//!    is the objective for single requests and half of it for batches, constraints (2) and (3) of
//!    Tetris 3.2.
//! 2. *Saturated.* One configuration with the same CPU and batch size dominates the two measured
//!    settings with the next smaller concurrency, and has a still smaller concurrency. It has no
//!    less throughput, no more memory and no more latency, at every percentile. Then it dominates
//!    this one as well (A1 to A3). The rule takes two settings, because one may be noise.
//!
//! `solve` loses nothing: it can replace a dominated configuration by the one that dominates it,
//! for no more memory and CPU.

use std::fmt;

use crate::latency::Percentile;
use crate::measurement::Measurement;
use crate::setting::Setting;

/// Margin by which a measurement must exceed the bound to rule out others, in percent: two
/// measurements of one configuration differ by less.
pub const TOLERANCE_PERCENT: u64 = 10;

/// Loosest objective of the profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SloBound {
    /// Objective, in microseconds.
    pub slo_micros: u64,
    /// Lowest percentile that the objective is about.
    pub percentile: Percentile,
}

impl SloBound {
    fn allows(&self, batch: u32) -> u64 {
        if batch == 1 {
            self.slo_micros
        } else {
            self.slo_micros / 2
        }
    }
}

/// The reason a setting need not be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuledOut {
    /// A smaller setting is too slow already.
    Late {
        /// Measured setting.
        by: Setting,
        /// Its latency, in microseconds.
        micros: u64,
        /// Maximum latency of the skipped setting, in microseconds.
        allowed_micros: u64,
    },
    /// More threads no longer help.
    Saturated {
        /// Measured setting that dominates.
        by: Setting,
    },
}

impl fmt::Display for RuledOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Late {
                by,
                micros,
                allowed_micros,
            } => write!(
                f,
                "{} takes {micros} us already, limit {allowed_micros} us",
                by.name()
            ),
            Self::Saturated { by } => write!(
                f,
                "two configurations with fewer threads are no faster than {} and no smaller",
                by.name()
            ),
        }
    }
}

/// Returns the reason `measured` rules `setting` out, if it does.
pub fn ruled_out(
    setting: Setting,
    measured: &[Measurement],
    bound: Option<SloBound>,
) -> Option<RuledOut> {
    bound
        .and_then(|bound| late(setting, measured, bound))
        .or_else(|| saturated(setting, measured))
}

fn late(setting: Setting, measured: &[Measurement], bound: SloBound) -> Option<RuledOut> {
    let allowed_micros = bound.allows(setting.batch);
    let limit = allowed_micros.saturating_mul(100 + TOLERANCE_PERCENT) / 100;
    measured.iter().find_map(|entry| {
        let by = entry.setting;
        let smaller = by.cpu_millis == setting.cpu_millis
            && by.batch <= setting.batch
            && by.concurrency <= setting.concurrency;
        let micros = entry.latency.at(bound.percentile);
        (smaller && micros > limit).then_some(RuledOut::Late {
            by,
            micros,
            allowed_micros,
        })
    })
}

fn saturated(setting: Setting, measured: &[Measurement]) -> Option<RuledOut> {
    let mut fewer: Vec<_> = measured
        .iter()
        .filter(|entry| entry.setting.cpu_millis == setting.cpu_millis)
        .filter(|entry| entry.setting.batch == setting.batch)
        .filter(|entry| entry.setting.concurrency < setting.concurrency)
        .collect();
    fewer.sort_unstable_by_key(|entry| entry.setting.concurrency);
    let [rest @ .., before, last] = &fewer[..] else {
        return None;
    };
    let better = rest
        .iter()
        .find(|entry| dominates(entry, before) && dominates(entry, last))?;
    Some(RuledOut::Saturated { by: better.setting })
}

/// Returns true if `one` is at least as good as `other` in every respect, at every percentile. Both
/// have the same CPU.
fn dominates(one: &Measurement, other: &Measurement) -> bool {
    let as_good = |percentile| {
        let ours = one.configuration(percentile, 0).ok()?;
        let other = other.configuration(percentile, 0).ok()?;
        Some(ours.rate() >= other.rate() && ours.least_slo_us() <= other.least_slo_us())
    };
    one.own_bytes <= other.own_bytes
        && Percentile::ALL
            .into_iter()
            .all(|percentile| as_good(percentile) == Some(true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::LatencyMicros;

    fn measured(batch: u32, concurrency: u32, millis: u64, own_bytes: u64) -> Measurement {
        let micros = millis * 1_000;
        Measurement {
            setting: at(batch, concurrency),
            own_bytes,
            verified: true,
            latency: LatencyMicros {
                p50: micros,
                p90: micros,
                p95: micros,
                p99: micros,
            },
            requests: 100,
            errors: 0,
            requests_per_second: f64::from(batch * concurrency) * 1e3 / millis as f64,
            on_gpu: None,
        }
    }

    const fn at(batch: u32, concurrency: u32) -> Setting {
        Setting {
            cpu_millis: 1_000,
            batch,
            concurrency,
        }
    }

    const BOUND: Option<SloBound> = Some(SloBound {
        slo_micros: 100_000,
        percentile: Percentile::P95,
    });

    #[test]
    fn a_single_request_that_takes_more_than_half_the_objective_rules_batches_out() {
        // 60 ms is well within 100 ms for single requests, and beyond 50 ms for batches.
        let known = [measured(1, 1, 60, 10)];
        assert_eq!(ruled_out(at(1, 2), &known, BOUND), None);
        assert!(ruled_out(at(2, 1), &known, BOUND).is_some());
        assert_eq!(ruled_out(at(2, 1), &known, None), None);
        // Within the tolerance the measurement rules out nothing.
        assert_eq!(ruled_out(at(2, 1), &[measured(1, 1, 54, 10)], BOUND), None);
    }

    #[test]
    fn latency_speaks_for_larger_settings_of_the_same_cpu_only() {
        let known = [measured(2, 2, 200, 10)];
        assert!(ruled_out(at(2, 3), &known, BOUND).is_some());
        assert!(ruled_out(at(4, 2), &known, BOUND).is_some());
        assert_eq!(ruled_out(at(2, 1), &known, BOUND), None);
        assert_eq!(ruled_out(at(1, 3), &known, BOUND), None);
        let other_cpu = Setting {
            cpu_millis: 2_000,
            ..at(4, 4)
        };
        assert_eq!(ruled_out(other_cpu, &known, BOUND), None);
    }

    #[test]
    fn two_settings_that_more_threads_made_no_better_end_a_row() {
        let peak = measured(1, 1, 10, 10);
        let flat = [peak.clone(), measured(1, 2, 20, 11), measured(1, 3, 30, 12)];
        assert_eq!(
            ruled_out(at(1, 4), &flat, None),
            Some(RuledOut::Saturated { by: at(1, 1) })
        );
        assert_eq!(
            ruled_out(at(1, 4), &flat[..2], None),
            None,
            "one may be noise"
        );
        let faster = [peak.clone(), measured(1, 2, 20, 11), measured(1, 3, 29, 12)];
        assert_eq!(ruled_out(at(1, 4), &faster, None), None);
        let smaller = [peak, measured(1, 2, 20, 11), measured(1, 3, 30, 9)];
        assert_eq!(ruled_out(at(1, 4), &smaller, None), None);
    }
}
