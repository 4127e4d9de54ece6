//! Times of batches.

use tetris_scaler_core::Configuration;
use tetris_simulation::Rng;

use crate::catalog::PaperModel;
use crate::platform::Platform;

/// Source of the times that batches take.
#[derive(Clone, Debug)]
pub(super) enum BatchTimes<'a> {
    /// Any part of the model's latency with as many requests, from the least of the platform on.
    Modeled { model: PaperModel, rng: Rng },
    /// Any of the times measured with the same number of requests.
    Measured {
        /// Times in microseconds by the number of requests, from 1 on.
        by_requests: &'a [Vec<u64>],
        rng: Rng,
    },
}

impl BatchTimes<'_> {
    /// Returns the time of the next batch, in microseconds. Without a measurement it takes its profiled latency.
    pub(super) fn next(&mut self, configuration: &Configuration, requests: usize) -> u64 {
        match self {
            Self::Modeled { model, rng } => {
                let least = Platform::default().least_latency_permille;
                let (cpu, threads) = (configuration.cpu_millis(), configuration.concurrency());
                let latency_us = model.latency_us(cpu, requests as u64, threads.into());
                latency_us * rng.between(least, 1_000) / 1_000
            }
            Self::Measured { by_requests, rng } => {
                let measured = by_requests.get(requests.saturating_sub(1));
                measured
                    .filter(|times| !times.is_empty())
                    .and_then(|times| times.get(rng.below(times.len() as u64) as usize))
                    .copied()
                    .unwrap_or_else(|| configuration.latency_us())
            }
        }
    }
}
