//! Loads of functions, as the operator reads them.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::Serialize;

use crate::function::Function;
use crate::metrics::Metrics;
use crate::recent::Latency;
use crate::routes::Routes;

/// Version of the page.
const VERSION: u32 = 1;

/// The page `/loads`.
#[derive(Debug, Serialize)]
pub(crate) struct Page {
    version: u32,
    gateway: String,
    /// Unix time of the start: counters began then.
    started_ms: u64,
    /// Monotonic time.
    at_ms: u64,
    functions: Vec<FunctionPage>,
}

#[derive(Debug, Serialize)]
struct FunctionPage {
    namespace: String,
    function: String,
    requests: u64,
    waiting: usize,
    in_flight: usize,
    oldest_wait_ms: u64,
    latency: Option<Latency>,
    instances: Vec<InstancePage>,
}

#[derive(Debug, Serialize)]
struct InstancePage {
    pod: String,
    outstanding: u64,
}

/// Identity of this process for its readers.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    name: String,
    started_ms: u64,
    began: Instant,
}

impl Origin {
    pub(crate) fn new(name: String) -> Self {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Self {
            name,
            started_ms: ms(since),
            began: Instant::now(),
        }
    }

    /// Makes the page.
    pub(crate) fn page(&self, routes: &Routes, metrics: &Metrics) -> Page {
        let mut functions: Vec<_> = routes.functions().collect();
        functions.sort_by_key(|function| function.name());
        Page {
            version: VERSION,
            gateway: self.name.clone(),
            started_ms: self.started_ms,
            at_ms: ms(self.began.elapsed()),
            functions: functions
                .into_iter()
                .map(|function| page(function, metrics))
                .collect(),
        }
    }
}

fn page(function: &Function, metrics: &Metrics) -> FunctionPage {
    let load = function.load();
    let (requests, latency) = metrics.with_recent(function.name(), |recent| {
        (recent.requests(), recent.latency(Instant::now()))
    });
    let instances = function.endpoints().into_iter();
    FunctionPage {
        namespace: function.name().namespace.clone(),
        function: function.name().name.clone(),
        requests,
        waiting: load.waiting,
        in_flight: load.in_flight,
        oldest_wait_ms: ms(function.oldest_wait()),
        latency,
        instances: instances
            .map(|instance| InstancePage {
                pod: instance.name,
                outstanding: instance.load.outstanding,
            })
            .collect(),
    }
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::function_name::FunctionName;
    use crate::metrics::{Dispatch, RequestOutcome};
    use crate::routes::Route;
    use tetris_scaler_core::Slo;
    use tetris_scaler_dispatch::Rules;

    #[test]
    fn functions_that_are_gone_are_forgotten_though_their_requests_still_end() {
        let name = |name: &str| FunctionName {
            namespace: String::new(),
            name: name.to_owned(),
        };
        let (stays, gone) = (name("stays"), name("gone"));
        let metrics = Metrics::new();
        let arrivals = [&stays, &gone].map(|function| metrics.arrived(function));
        for arrival in &arrivals {
            arrival.admitted();
        }
        let rules = Rules::new(Slo::try_from_us(1).unwrap());
        metrics.keep(&Routes::new([Route {
            function: Function::new(stays.clone(), rules),
            hosts: Vec::new(),
            models: Vec::new(),
            openai_models: Vec::new(),
        }]));
        let now = Instant::now();
        for arrival in arrivals {
            let dispatch = Dispatch {
                configuration: "",
                arrived_at: now,
                sent_at: now,
                slo: Duration::MAX,
                span: &tracing::Span::none(),
            };
            arrival.dispatched(dispatch).ended(RequestOutcome::Served);
        }
        let of = |function| {
            metrics.with_recent(function, |recent| {
                (recent.requests(), recent.latency(now).is_some())
            })
        };
        assert_eq!((of(&stays), of(&gone)), ((1, true), (0, false)));
    }
}
