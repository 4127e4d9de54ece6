//! Requests over a day, of the three kinds in the literature on serverless inference (Shahrad et
//! al., ATC 2020, section 3: steady, timer-driven and bursty functions).
//!
//! - Stable: each model at a constant rate (Poisson): 300 requests an hour in total, distributed by
//!   Zipf's law with exponent 0.9.
//! - Periodic: each model by a timer of 5 minutes to 4 hours with 5 % jitter.
//! - Bursty: each model silent for 30 minutes to 8 hours on average, then 20 requests on average, 30
//!   seconds apart.
//!
//! [`of_file`] takes them from a file of a real trace instead.

use tetris_simulation::traces::{Factor, TraceSample};
use tetris_simulation::{Rng, TraceKind};

const SECOND_MS: f64 = 1000.0;
const MINUTE_MS: f64 = 60.0 * SECOND_MS;
const HOUR_MS: f64 = 60.0 * MINUTE_MS;

/// Mean time in milliseconds that an instance holds its model after the load: it answers and
/// releases it.
const HOLD_MS: f64 = 60.0 * SECOND_MS;

/// An instance that needs a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Request {
    /// Time of the request, in milliseconds.
    pub at_ms: u64,
    /// Index of the model.
    pub model: usize,
    /// Time that it holds the model after the load, in milliseconds.
    pub hold_ms: u64,
}

/// Generates requests for `models` models over `hours` hours, in order.
pub fn generate(kind: TraceKind, models: usize, hours: u64, seed: u64) -> Vec<Request> {
    let mut rng = Rng::new(seed, 2 + kind as u64);
    let end_ms = hours as f64 * HOUR_MS;
    let weight = |model: usize| (model as f64 + 1.0).powf(-0.9);
    let weights: f64 = (0..models).map(weight).sum();
    let mut requests = Vec::new();
    for model in 0..models {
        let gap_ms = match kind {
            TraceKind::Stable => HOUR_MS / (300.0 * weight(model) / weights),
            TraceKind::Periodic => rng.log_uniform(5.0 * MINUTE_MS, 4.0 * HOUR_MS),
            TraceKind::Bursty => rng.log_uniform(0.5 * HOUR_MS, 8.0 * HOUR_MS),
        };
        let mut at_ms = match kind {
            TraceKind::Periodic => rng.uniform(0.0, gap_ms),
            TraceKind::Stable | TraceKind::Bursty => rng.exponential(gap_ms),
        };
        while at_ms < end_ms {
            requests.push(Request {
                at_ms: at_ms as u64,
                model,
                hold_ms: rng.exponential(HOLD_MS) as u64,
            });
            at_ms += match kind {
                TraceKind::Periodic => gap_ms * rng.uniform(0.95, 1.05),
                // The burst continues with 19 of 20 requests.
                TraceKind::Bursty if rng.unit() < 0.95 => rng.exponential(30.0 * SECOND_MS),
                TraceKind::Stable | TraceKind::Bursty => rng.exponential(gap_ms),
            };
        }
    }
    requests.sort_unstable();
    requests
}

/// Random numbers of hold times are independent of those of a file's requests.
const HOLD_STREAM: u64 = 1 << 44;

/// Returns the requests of the functions of a file over `hours` hours, in order. The first function calls the first of
/// `models` models, and so on in turn.
///
/// A request holds its model for its duration in the file, or, where the file has none, as long as a generated one.
/// `micro_rps` is the mean of all, in millionths of a request per second; without it each request of the file comes once.
pub fn of_file(
    sample: &TraceSample,
    micro_rps: Option<u64>,
    models: usize,
    hours: u64,
    seed: u64,
) -> Vec<Request> {
    let run_s = hours * 3_600;
    let factor = micro_rps.map_or(Factor::ONE, |micro_rps| {
        Factor::to_mean(sample.requests(), micro_rps, run_s)
    });
    let mut rng = Rng::new(seed, HOLD_STREAM);
    let mut requests = Vec::new();
    for (number, function) in sample.functions().iter().enumerate() {
        let of_function = function.run(sample.window(), run_s, factor, seed, number as u64);
        requests.extend(of_function.into_iter().map(|request| {
            Request {
                at_ms: request.at_us / 1_000,
                model: number.checked_rem(models).unwrap_or(0),
                hold_ms: request
                    .duration_ms
                    .map_or_else(|| rng.exponential(HOLD_MS) as u64, u64::from),
            }
        }));
    }
    requests.sort_unstable();
    requests
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_follows_from_its_seed_and_is_in_order() {
        for kind in TraceKind::ALL {
            let trace = generate(kind, 50, 24, 7);
            assert_eq!(trace, generate(kind, 50, 24, 7));
            assert_ne!(trace, generate(kind, 50, 24, 8));
            assert!(trace.is_sorted());
            assert!(trace.len() > 1000, "{kind}: {}", trace.len());
        }
    }
}
