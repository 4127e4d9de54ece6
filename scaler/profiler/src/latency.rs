//! Percentiles of latencies.

use serde::{Deserialize, Serialize};

/// Minimum number of samples for percentiles: with fewer, p99 would be the maximum of a handful.
pub const MIN_SAMPLES: usize = 20;

/// Percentiles of the latency of requests, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LatencyMicros {
    /// Median.
    pub p50: u64,
    /// Latency that 90 % of requests do not exceed.
    pub p90: u64,
    /// Latency that 95 % of requests do not exceed.
    pub p95: u64,
    /// Latency that 99 % of requests do not exceed.
    pub p99: u64,
}

impl LatencyMicros {
    /// Computes percentiles by nearest rank: each is the latency of some request. `None` without
    /// samples.
    pub fn of(samples: &mut [u64]) -> Option<Self> {
        samples.sort_unstable();
        let rank = |percent: usize| {
            let rank = (samples.len() * percent).div_ceil(100).max(1);
            // A latency of 0 would mean an infinite rate.
            samples.get(rank - 1).map(|&latency| latency.max(1))
        };
        Some(Self {
            p50: rank(50)?,
            p90: rank(90)?,
            p95: rank(95)?,
            p99: rank(99)?,
        })
    }

    /// Latency at `percentile`, in microseconds.
    pub const fn at(&self, percentile: Percentile) -> u64 {
        match percentile {
            Percentile::P50 => self.p50,
            Percentile::P90 => self.p90,
            Percentile::P95 => self.p95,
            Percentile::P99 => self.p99,
        }
    }
}

/// Percentile of the latency that counts as a configuration's latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Percentile {
    /// The median.
    #[value(name = "50")]
    P50,
    /// The 90th percentile.
    #[value(name = "90")]
    P90,
    /// The 95th percentile.
    #[value(name = "95")]
    P95,
    /// The 99th percentile.
    #[value(name = "99")]
    P99,
}

impl Percentile {
    /// All percentiles, ascending.
    pub const ALL: [Self; 4] = [Self::P50, Self::P90, Self::P95, Self::P99];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_latencies_that_requests_had() {
        let mut samples: Vec<u64> = (1..=200).rev().collect();
        let latency = LatencyMicros::of(&mut samples).unwrap();
        let expected = LatencyMicros {
            p50: 100,
            p90: 180,
            p95: 190,
            p99: 198,
        };
        assert_eq!(latency, expected);
        let single = LatencyMicros::of(&mut [7]).unwrap();
        assert_eq!((single.p50, single.p99), (7, 7));
        assert_eq!(LatencyMicros::of(&mut [0]).unwrap().p50, 1);
        assert_eq!(LatencyMicros::of(&mut []), None);
    }
}
