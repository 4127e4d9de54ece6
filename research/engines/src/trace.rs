//! Requests of a trace.

use tetris_simulation::Rng;

use crate::SECOND;

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Number of its model.
    pub model: usize,
    /// Arrival.
    pub arrived_us: u64,
    /// Time from its start to the first token.
    pub first_us: u64,
    /// Time from its start to the last token.
    pub whole_us: u64,
}

/// Kind of a trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Workload {
    /// Number of models.
    pub models: usize,
    /// Exponent of Zipf's law: the model of rank `k` has a weight of `k` to the power of minus this.
    pub exponent: f64,
    /// Mean number of requests per second.
    pub rate: f64,
    /// Length of the trace.
    pub length_us: u64,
}

/// Requests in the order of their arrivals: a Poisson process, with models by Zipf's law.
pub fn trace(workload: &Workload, seed: u64) -> Vec<Request> {
    let weights: Vec<f64> = (1..=workload.models)
        .map(|rank| (rank as f64).powf(-workload.exponent))
        .collect();
    let all: f64 = weights.iter().sum();
    let (mut times, mut choices, mut lengths) =
        (Rng::new(seed, 1), Rng::new(seed, 2), Rng::new(seed, 3));
    let mut requests = Vec::new();
    let mut at = 0.0;
    loop {
        at += times.exponential(1.0 / workload.rate) * SECOND as f64;
        if at >= workload.length_us as f64 {
            return requests;
        }
        let mut point = choices.unit() * all;
        let model = weights.iter().position(|weight| {
            point -= weight;
            point < 0.0
        });
        let first_us = 200_000;
        let decoded_us = lengths.log_uniform(1.0, 8.0) * SECOND as f64;
        requests.push(Request {
            model: model.unwrap_or(workload.models.saturating_sub(1)),
            arrived_us: at as u64,
            first_us,
            whole_us: first_us + decoded_us as u64,
        });
    }
}
