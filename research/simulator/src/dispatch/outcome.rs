//! Results of a rule.

use serde::Serialize;

use crate::outcome::BatchFill;

/// Median and 99th percentile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Quantiles {
    /// Median.
    pub p50: u64,
    /// 99th percentile.
    pub p99: u64,
}

impl Quantiles {
    fn of(mut values: Vec<u64>) -> Self {
        values.sort_unstable();
        let at = |percent: usize| {
            let place = values.len().saturating_sub(1) * percent / 100;
            values.get(place).copied().unwrap_or(0)
        };
        Self {
            p50: at(50),
            p99: at(99),
        }
    }
}

/// Result of a rule on a case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DispatchOutcome {
    /// Number of requests.
    pub requests: u64,
    /// Number of requests that took longer than their function's objective.
    pub violations: u64,
    /// Latency from arrival to result, in microseconds.
    pub latency_us: Quantiles,
    /// The same, in thousandths of each function's objective.
    pub of_slo_permille: Quantiles,
    /// Fill of the batches.
    pub fill: BatchFill,
}

/// Latencies of requests.
#[derive(Clone, Debug, Default)]
pub(super) struct Times {
    violations: u64,
    latency_us: Vec<u64>,
    of_slo_permille: Vec<u64>,
    fill: BatchFill,
}

impl Times {
    pub(super) fn add(&mut self, latency_us: u64, slo_us: u64) {
        self.violations += u64::from(latency_us > slo_us);
        self.latency_us.push(latency_us);
        let permille = latency_us.saturating_mul(1_000) / slo_us.max(1);
        self.of_slo_permille.push(permille);
    }

    /// Counts a batch of `requests` on an instance with room for `batch` in one.
    pub(super) fn executes(&mut self, requests: usize, batch: u32) {
        self.fill.add(requests, batch);
    }

    pub(super) fn outcome(self) -> DispatchOutcome {
        DispatchOutcome {
            requests: self.latency_us.len() as u64,
            violations: self.violations,
            latency_us: Quantiles::of(self.latency_us),
            of_slo_permille: Quantiles::of(self.of_slo_permille),
            fill: self.fill,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_late_beyond_its_objective() {
        let mut times = Times::default();
        for latency_us in 1..=101 {
            times.add(latency_us, 50);
        }
        let outcome = times.outcome();
        assert_eq!((outcome.requests, outcome.violations), (101, 51));
        assert_eq!(outcome.latency_us, Quantiles { p50: 51, p99: 100 });
        assert_eq!(outcome.of_slo_permille.p99, 2_000);
    }
}
