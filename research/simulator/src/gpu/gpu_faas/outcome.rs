//! Figures of one run of GPU-FaaS's evaluation.

use serde::Serialize;

use crate::gpu::record::GpuRecords;

/// Figures of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FaasOutcome {
    /// Number of requests.
    pub requests: u64,
    /// Mean time from the arrival to the result, in microseconds.
    pub mean_latency_us: u64,
    /// Variance of that time, in square milliseconds.
    pub variance_ms2: u64,
    /// Requests whose model had to be loaded, in 10,000.
    pub misses_per_10000: u64,
    /// Misses whose model was on another GPU, in 10,000 misses.
    pub false_misses_per_10000: u64,
    /// Mean number of copies of the most popular model, in thousandths.
    pub top_copies_milli: u64,
    /// Use of SMs: time that all GPUs execute inferences, without loads, from the first arrival to the
    /// last result, in 10,000.
    pub use_per_10000: u64,
}

impl FaasOutcome {
    pub(super) fn of(records: &GpuRecords) -> Self {
        let all = &records.requests;
        let count = all.len().max(1) as u64;
        let latencies = || all.iter().map(|request| request.latency_us.unwrap_or(0));
        let mean_us = latencies().sum::<u64>() / count;
        let squares = latencies().map(|us| u128::from(us.abs_diff(mean_us) / 1_000).pow(2));
        let misses = all.iter().filter(|request| request.missed).count() as u64;
        let false_misses = all.iter().filter(|request| request.false_miss).count() as u64;
        Self {
            requests: all.len() as u64,
            mean_latency_us: mean_us,
            variance_ms2: u64::try_from(squares.sum::<u128>() / u128::from(count))
                .unwrap_or(u64::MAX),
            misses_per_10000: misses * 10_000 / count,
            false_misses_per_10000: false_misses * 10_000 / misses.max(1),
            top_copies_milli: records.copies_milli(),
            use_per_10000: records.use_per_10000(),
        }
    }

    /// Mean of several runs.
    pub(super) fn mean(runs: &[Self]) -> Self {
        let count = runs.len().max(1) as u64;
        let mean = |field: fn(&Self) -> u64| {
            let sum: u128 = runs.iter().map(|run| u128::from(field(run))).sum();
            u64::try_from(sum / u128::from(count)).unwrap_or(u64::MAX)
        };
        Self {
            requests: mean(|run| run.requests),
            mean_latency_us: mean(|run| run.mean_latency_us),
            variance_ms2: mean(|run| run.variance_ms2),
            misses_per_10000: mean(|run| run.misses_per_10000),
            false_misses_per_10000: mean(|run| run.false_misses_per_10000),
            top_copies_milli: mean(|run| run.top_copies_milli),
            use_per_10000: mean(|run| run.use_per_10000),
        }
    }
}
