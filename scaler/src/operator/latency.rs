//! Latency in service, compared with the profile.

use tetris_scaler_core::{InstanceView, Phase, Profile, Rate};

use crate::load::LoadError;

/// Deviation without significance, in percent of the profile's latency.
const TOLERANCE_PERCENT: u64 = 10;
/// Maximum by which a load counts for more, in percent: capacity counts for at least half.
const MOST_PERCENT: u64 = 100;

/// Latency of a function's instances, and that of their profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Service {
    /// Measured latency, in microseconds.
    pub measured_us: u64,
    /// Largest latency that the profile has for a configuration that serves, in microseconds.
    pub expected_us: u64,
    /// Part by which instances carry less than profiled, as percent by which the load counts for
    /// more.
    pub more_percent: u32,
}

/// Compares the latency of `instances` of one function with its profile. Returns `None` if none of
/// them is ready, or if the load exceeds what they carry: then requests are late for another reason.
///
/// Instances that are faster than profiled do not count for more: with a low load every request is
/// fast.
pub fn compare<'a>(
    measured_us: u64,
    load: Rate,
    profile: &Profile,
    instances: impl Iterator<Item = &'a InstanceView>,
) -> Option<Service> {
    let ready = instances.filter(|instance| instance.phase == Phase::Ready);
    let ready = ready.filter_map(|instance| profile.configurations().get(instance.configuration?));
    let (mut expected_us, mut capacity) = (0, Rate::ZERO);
    for instance in ready {
        expected_us = expected_us.max(instance.latency_us());
        capacity = capacity.plus(instance.rate());
    }
    if expected_us == 0 || load > capacity {
        return None;
    }
    let tolerated = expected_us.saturating_add(expected_us.saturating_mul(TOLERANCE_PERCENT) / 100);
    let percent = measured_us.saturating_mul(100) / tolerated.max(1);
    let more = percent.saturating_sub(100).min(MOST_PERCENT);
    Some(Service {
        measured_us,
        expected_us,
        more_percent: u32::try_from(more).unwrap_or(0),
    })
}

/// Latency that follows the measured one within a window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Smoothed {
    us: f64,
    at_ms: u64,
}

impl Smoothed {
    /// Follows `answer`, in microseconds, which came at `at_ms`. Without a new answer the latency
    /// known `before` holds for a window: a query that fails once implies nothing about the instances.
    ///
    /// # Errors
    ///
    /// Fails with that of `answer` once nothing is known.
    pub fn follow(
        before: Option<Self>,
        answer: Result<u64, LoadError>,
        at_ms: u64,
        window_ms: u64,
    ) -> Result<Self, LoadError> {
        let passed_ms = |before: &Self| at_ms.saturating_sub(before.at_ms);
        let before = before.filter(|before| passed_ms(before) <= window_ms);
        match (answer, before) {
            (Ok(now), Some(before)) => {
                let passed = passed_ms(&before) as f64 / window_ms.max(1) as f64;
                let share = 1.0 - (-passed).exp();
                let us = before.us + share * (now as f64 - before.us);
                Ok(Self { us, at_ms })
            }
            (Ok(now), None) => Ok(Self {
                us: now as f64,
                at_ms,
            }),
            (Err(_), Some(before)) => Ok(before),
            (Err(error), None) => Err(error),
        }
    }

    /// Returns the latency in microseconds.
    pub fn us(self) -> u64 {
        self.us as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW_MS: u64 = 60_000;

    #[test]
    fn the_latency_follows_within_a_window() {
        let after = |before, at_ms, now: u64| Smoothed::follow(before, Ok(now), at_ms, WINDOW_MS);
        let first = after(None, 0, 50_000).unwrap();
        assert_eq!(first.us(), 50_000);
        let soon = after(Some(first), 5_000, 100_000).unwrap();
        assert!((53_000..55_000).contains(&soon.us()), "{soon:?}");
        let mut last = soon;
        for at in 2..60 {
            last = after(Some(last), at * 5_000, 100_000).unwrap();
        }
        assert!((99_000..=100_000).contains(&last.us()), "{last:?}");
    }

    #[test]
    fn a_failed_query_changes_nothing_for_a_window() {
        let known = Smoothed::follow(None, Ok(50_000), 0, WINDOW_MS).unwrap();
        let fails = |at_ms| Smoothed::follow(Some(known), Err(LoadError::Empty), at_ms, WINDOW_MS);
        assert_eq!(fails(WINDOW_MS), Ok(known));
        assert_eq!(fails(WINDOW_MS + 1), Err(LoadError::Empty));
        let long_after = Smoothed::follow(Some(known), Ok(20_000), 300_000, WINDOW_MS);
        assert_eq!(long_after.unwrap().us(), 20_000);
    }
}
