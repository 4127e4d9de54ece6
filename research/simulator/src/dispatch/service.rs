//! Instances of one function, with requests and times of batches as they were measured.

use serde::{Deserialize, Serialize};
use tetris_scaler_core::{Configuration, ConfigurationSpec, Slo};

use super::batch_times::BatchTimes;
use super::case::FunctionCase;
use super::outcome::{DispatchOutcome, Times};
use super::rule::Rule;
use super::run::run;
use super::{MAX_REQUESTS, check};
use crate::error::SimulationError;

/// Most instances of a service.
const MAX_INSTANCES: u64 = 1_000;

/// A function with equal instances.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Service {
    /// Objective in microseconds.
    pub slo_us: u64,
    /// Configuration of each instance.
    pub configuration: ConfigurationSpec,
    /// Number of instances.
    pub instances: u64,
    /// Times of batches in microseconds by the number of their requests, from 1 on.
    pub batch_us: Vec<Vec<u64>>,
    /// Times of requests in microseconds, ascending.
    pub arrivals_us: Vec<u64>,
    /// Longest wait of a batch to fill, in percent of what its latency leaves of the objective; without it the operator's.
    #[serde(default)]
    pub batch_wait_percent: Option<u64>,
    /// Seed of the choice among the times of batches.
    pub seed: u64,
}

/// Outcome of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ServiceOutcome {
    /// Longest wait of a batch to be filled, in microseconds.
    pub batch_wait_us: u64,
    /// Its requests.
    #[serde(flatten)]
    pub outcome: DispatchOutcome,
}

/// Sends the requests of `service` through one dispatcher. The first tenth does not count.
///
/// # Errors
///
/// Fails if a parameter is out of range.
pub fn simulate_service(service: &Service) -> Result<ServiceOutcome, SimulationError> {
    let requests = service.arrivals_us.len() as u64;
    check("arrivals_us", requests, 1, MAX_REQUESTS)?;
    check("instances", service.instances, 1, MAX_INSTANCES)?;
    let percent = service.batch_wait_percent.unwrap_or(0);
    check("batch_wait_percent", percent, 0, 100)?;
    let configuration = Configuration::try_new(service.configuration)?;
    let instances = (0..service.instances).map(|_| configuration).collect();
    let slo = Slo::try_from_us(service.slo_us)?;
    let mut case = FunctionCase::of(slo, instances, service.seed);
    case.batch_wait_percent = service.batch_wait_percent;
    let batch_times = BatchTimes::Measured {
        by_requests: &service.batch_us,
        rng: case.latencies(),
    };
    let mut times = Times::default();
    let arrivals = service.arrivals_us.iter().copied();
    run(
        &case,
        Rule::Dispatcher,
        requests,
        arrivals,
        batch_times,
        &mut times,
    );
    Ok(ServiceOutcome {
        batch_wait_us: case.batch_wait_us(&configuration),
        outcome: times.outcome(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(arrivals_us: Vec<u64>) -> Service {
        Service {
            slo_us: 200_000,
            configuration: ConfigurationSpec {
                cpu_millis: 1_000,
                own_bytes: 1,
                shared_bytes: 0,
                batch: 2,
                concurrency: 1,
                latency_us: 40_000,
                rate_millis: None,
                gpu: None,
            },
            instances: 1,
            batch_us: vec![vec![20_000], vec![40_000]],
            arrivals_us,
            batch_wait_percent: None,
            seed: 1,
        }
    }

    #[test]
    fn batches_take_as_long_as_measured_with_as_many_requests() {
        let full = simulate_service(&service(vec![0, 1_000])).unwrap().outcome;
        assert_eq!((full.fill.requests, full.fill.places), (2, 2));
        assert_eq!(full.latency_us.p50, 40_000, "{full:?}");
        // Alone it waits for a tenth of 160 ms.
        let alone = simulate_service(&service(vec![0])).unwrap();
        assert_eq!(alone.batch_wait_us, 16_000);
        let alone = alone.outcome;
        assert_eq!((alone.fill.requests, alone.fill.places), (1, 2));
        assert_eq!(alone.latency_us.p50, 36_000);
        assert_eq!(alone.violations, 0);
    }

    #[test]
    fn another_wait_counts_before_that_of_the_operator() {
        let whole = Service {
            batch_wait_percent: Some(100),
            ..service(vec![0])
        };
        let found = simulate_service(&whole).unwrap();
        let times = (found.batch_wait_us, found.outcome.latency_us.p50);
        assert_eq!(times, (160_000, 180_000));
        let beyond = Service {
            batch_wait_percent: Some(101),
            ..whole
        };
        assert!(simulate_service(&beyond).is_err());
    }

    #[test]
    fn a_service_out_of_range_is_refused() {
        let empty = simulate_service(&service(Vec::new())).unwrap_err();
        assert!(empty.to_string().contains("`arrivals_us` is 0"), "{empty}");
        let none = Service {
            instances: 0,
            ..service(vec![0])
        };
        assert!(simulate_service(&none).is_err());
    }
}
