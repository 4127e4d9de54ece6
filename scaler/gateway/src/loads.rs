//! Loads of functions, as the operator reads them.

use std::collections::VecDeque;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::Serialize;

use crate::function::Function;
use crate::metrics::Metrics;
use crate::routes::Routes;

/// Version of the page.
const VERSION: u32 = 1;
/// Time of one part of the last minute.
const PART: Duration = Duration::from_secs(10);
/// Parts that latencies are kept for.
const PARTS: usize = 6;
/// Upper bound of the first latency bucket, and the ratio of one bound to the next.
const FIRST_MS: f64 = 0.1;
const RATIO: f64 = 1.1;
/// The last bound is above an hour.
const BUCKETS: usize = 192;

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

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Latency {
    p50_ms: f64,
    p95_ms: f64,
    p99_ms: f64,
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
        (recent.requests, recent.latency(Instant::now()))
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
            .map(|one| InstancePage {
                pod: one.name,
                outstanding: one.load.outstanding,
            })
            .collect(),
    }
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Arrivals of one function, and latencies of the last minute.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    requests: u64,
    parts: VecDeque<Part>,
}

#[derive(Debug)]
struct Part {
    since: Instant,
    buckets: Vec<u32>,
}

impl Recent {
    /// Counts a request.
    pub(crate) fn arrived(&mut self) {
        self.requests = self.requests.saturating_add(1);
    }

    /// Counts a latency.
    pub(crate) fn served(&mut self, latency: Duration, now: Instant) {
        self.forget(now);
        if self
            .parts
            .back()
            .is_none_or(|part| now.duration_since(part.since) >= PART)
        {
            self.parts.push_back(Part {
                since: now,
                buckets: vec![0; BUCKETS],
            });
        }
        let ms = latency.as_secs_f64() * 1_000.0;
        let bucket = ((ms / FIRST_MS).ln() / RATIO.ln()).ceil().max(0.0) as usize;
        let buckets = self.parts.back_mut().map(|part| &mut part.buckets);
        let count = buckets.and_then(|buckets| buckets.get_mut(bucket.min(BUCKETS - 1)));
        if let Some(count) = count {
            *count = count.saturating_add(1);
        }
    }

    fn forget(&mut self, now: Instant) {
        let old = |part: &Part| now.duration_since(part.since) >= PART * PARTS as u32;
        while self.parts.front().is_some_and(old) {
            self.parts.pop_front();
        }
    }

    /// Percentiles of the last minute, each at most a tenth too high.
    fn latency(&mut self, now: Instant) -> Option<Latency> {
        self.forget(now);
        let mut all = vec![0_u64; BUCKETS];
        for part in &self.parts {
            for (sum, &count) in all.iter_mut().zip(&part.buckets) {
                *sum = sum.saturating_add(count.into());
            }
        }
        let total: u64 = all.iter().sum();
        let at = |percent: u64| {
            let rank = (total * percent).div_ceil(100);
            let mut seen = 0;
            let bucket = all.iter().position(|&count| {
                seen += count;
                seen >= rank
            });
            FIRST_MS * RATIO.powf(bucket.unwrap_or(BUCKETS - 1) as f64)
        };
        (total > 0).then(|| Latency {
            p50_ms: at(50),
            p95_ms: at(95),
            p99_ms: at(99),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::function_name::FunctionName;
    use crate::metrics::Dispatch;
    use crate::routes::Route;
    use tetris_scaler_core::Slo;
    use tetris_scaler_dispatch::Rules;

    #[test]
    fn percentiles_are_those_of_the_last_minute() {
        let mut of = Recent::default();
        let begin = Instant::now();
        for ms in 1..=100 {
            of.served(Duration::from_millis(ms), begin);
        }
        let found = of.latency(begin).unwrap();
        for (found, exact) in [
            (found.p50_ms, 50.0),
            (found.p95_ms, 95.0),
            (found.p99_ms, 99.0),
        ] {
            assert!(
                (exact..=exact * RATIO).contains(&found),
                "{found} for {exact}"
            );
        }
        of.served(Duration::from_millis(7), begin + PART * 3);
        let later = of.latency(begin + PART * 7).unwrap();
        assert!((7.0..7.71).contains(&later.p50_ms), "{later:?}");
        assert_eq!(of.latency(begin + PART * 20), None);
    }

    #[test]
    fn functions_that_are_gone_are_forgotten_though_their_requests_still_end() {
        let name = |name: &str| FunctionName {
            namespace: String::new(),
            name: name.to_owned(),
        };
        let (stays, gone) = (name("stays"), name("gone"));
        let metrics = Metrics::new();
        let arrivals = [&stays, &gone].map(|function| metrics.arrived(function));
        let rules = Rules::new(Slo::try_from_us(1).unwrap());
        metrics.keep(&Routes::new([Route {
            function: Function::new(stays.clone(), rules),
            hosts: Vec::new(),
            models: Vec::new(),
        }]));
        let now = Instant::now();
        for arrival in arrivals {
            let dispatch = Dispatch {
                configuration: "",
                arrived_at: now,
                sent_at: now,
                slo: PART,
            };
            arrival.dispatched(dispatch).ended("served");
        }
        let of = |function| {
            metrics.with_recent(function, |recent| {
                (recent.requests, recent.latency(now).is_some())
            })
        };
        assert_eq!((of(&stays), of(&gone)), ((1, true), (0, false)));
    }

    #[test]
    fn the_shortest_and_the_longest_latency_have_a_bucket() {
        let mut of = Recent::default();
        let now = Instant::now();
        of.served(Duration::ZERO, now);
        assert!(of.latency(now).unwrap().p50_ms <= FIRST_MS);
        let mut of = Recent::default();
        of.served(Duration::from_secs(1 << 40), now);
        assert!(of.latency(now).unwrap().p50_ms > 3_600_000.0);
    }
}
