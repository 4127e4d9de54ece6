//! Exact requests per second.

use std::fmt;
use std::iter::Sum;

use serde::{Deserialize, Serialize};

use crate::error::FieldError;

const MICRO: u64 = 1_000_000;

/// Requests per second in millionths, for loads and throughputs.
///
/// A throughput `b p / l` is rounded up to the next millionth. So three instances of 3 ms per
/// request carry 1,000 requests per second, as in the paper's arithmetic. The rounding overstates
/// an instance by less than one request in eleven days. Sums saturate at 1.8e13 requests per
/// second.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Rate(u64);

impl Rate {
    /// No requests.
    pub const ZERO: Self = Self(0);

    /// Creates a rate from millionths of a request per second.
    pub const fn from_micro_rps(micro_rps: u64) -> Self {
        Self(micro_rps)
    }

    /// Creates a rate from thousandths of a request per second; saturates.
    pub const fn from_milli_rps(milli_rps: u64) -> Self {
        Self(milli_rps.saturating_mul(1_000))
    }

    /// Creates a rate from requests per second; saturates.
    pub const fn from_rps(rps: u64) -> Self {
        Self(rps.saturating_mul(MICRO))
    }

    /// Creates a rate from a gauge, rounded up so that no load is understated.
    ///
    /// # Errors
    ///
    /// Fails if `rps` is negative, not finite, or too large.
    pub fn try_from_rps_f64(rps: f64) -> Result<Self, RateError> {
        let micro = (rps * MICRO as f64).ceil();
        if rps.is_finite() && (0.0..18e18).contains(&micro) {
            Ok(Self(micro as u64))
        } else {
            Err(RateError { rps })
        }
    }

    /// Rate in millionths of a request per second.
    pub const fn micro_rps(self) -> u64 {
        self.0
    }

    /// Returns true if the rate is zero.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Rate of `concurrency` threads with `batch` requests each, every `latency_us` microseconds.
    pub(crate) fn of(batch: u32, concurrency: u32, latency_us: u64) -> Self {
        let requests = u128::from(batch) * u128::from(concurrency);
        let micro = (requests * u128::from(MICRO) * u128::from(MICRO))
            .div_ceil(u128::from(latency_us.max(1)));
        Self(u64::try_from(micro).unwrap_or(u64::MAX))
    }

    /// Returns the sum; saturates.
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// Returns the difference, or zero.
    pub const fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// Returns `count` times the rate; saturates.
    pub const fn times(self, count: u64) -> Self {
        Self(self.0.saturating_mul(count))
    }

    /// Returns `(100 + percent) / 100` times the rate, rounded up; saturates.
    pub fn with_headroom(self, percent: u32) -> Self {
        let scaled = u128::from(self.0) * (100 + u128::from(percent));
        Self(u64::try_from(scaled.div_ceil(100)).unwrap_or(u64::MAX))
    }
}

impl Sum for Rate {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Self::plus)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.0 / MICRO, self.0 % MICRO);
        if part == 0 {
            return write!(f, "{whole} requests/s");
        }
        let digits = format!("{part:06}");
        write!(f, "{whole}.{} requests/s", digits.trim_end_matches('0'))
    }
}

/// A number that is not a rate.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("found {rps}, expected requests per second from 0 to 1.8e13")]
pub struct RateError {
    /// Number given.
    pub rps: f64,
}

/// Maximum latency and half of the maximum service level objective: one hour, in microseconds.
pub const MAX_LATENCY_US: u64 = 3_600_000_000;

/// A service level objective: the maximum latency of a request, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub struct Slo(u64);

impl Slo {
    /// Creates an objective of `slo_us` microseconds, at least 1 and at most two hours.
    ///
    /// # Errors
    ///
    /// Fails if `slo_us` is out of range.
    pub fn try_from_us(slo_us: u64) -> Result<Self, FieldError> {
        FieldError::check("slo_us", slo_us, 1, 2 * MAX_LATENCY_US).map(Self)
    }

    /// Objective in microseconds.
    pub const fn us(self) -> u64 {
        self.0
    }
}

impl TryFrom<u64> for Slo {
    type Error = FieldError;

    fn try_from(slo_us: u64) -> Result<Self, FieldError> {
        Self::try_from_us(slo_us)
    }
}

impl From<Slo> for u64 {
    fn from(slo: Slo) -> Self {
        slo.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_throughput_is_rounded_up_to_a_millionth() {
        assert_eq!(Rate::of(1, 1, 3_000).micro_rps(), 333_333_334);
        assert_eq!(Rate::of(4, 3, 12_000), Rate::from_rps(1_000));
        assert!(Rate::of(1, 1, 3_000).times(3) >= Rate::from_rps(1_000));
        assert!(Rate::of(1, 1, 3_000).times(3) < Rate::from_micro_rps(1_000_000_003));
    }

    #[test]
    fn a_gauge_is_rounded_up_and_nonsense_refused() {
        assert_eq!(Rate::try_from_rps_f64(0.000_000_1).unwrap().micro_rps(), 1);
        assert_eq!(Rate::try_from_rps_f64(2.5).unwrap().micro_rps(), 2_500_000);
        for rps in [f64::NAN, f64::INFINITY, -1.0, 1e300] {
            assert!(Rate::try_from_rps_f64(rps).is_err(), "{rps}");
        }
    }

    #[test]
    fn sums_saturate_and_headroom_rounds_up() {
        let most = Rate::from_micro_rps(u64::MAX);
        assert_eq!(most.plus(most), most);
        assert_eq!(most.with_headroom(u32::MAX), most);
        assert_eq!(Rate::from_micro_rps(1).with_headroom(1).micro_rps(), 2);
        assert_eq!(Rate::from_rps(10).with_headroom(10), Rate::from_rps(11));
    }

    #[test]
    fn rates_read_as_requests_per_second() {
        assert_eq!(Rate::from_milli_rps(2_500).to_string(), "2.5 requests/s");
        assert_eq!(Rate::from_rps(7).to_string(), "7 requests/s");
    }
}
