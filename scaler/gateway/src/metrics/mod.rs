//! Prometheus metrics. The number of series is bounded by the functions and their configurations.

mod gpu;
mod outcome;
mod series;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use tetris_service_kit::metrics::{encode, register_build_info};
use tracing::Span;

use crate::engines::EngineMetrics;
use crate::function_name::FunctionName;
use crate::memory::Memory;
use crate::problem::Problem;
use crate::recent::Recent;
use crate::routes::Routes;

use gpu::GpuMetrics;
pub(crate) use outcome::RequestOutcome;
use series::{ConfigurationSeries, FunctionSeries};

/// Upper bounds of the histograms, in seconds.
const SECONDS: [f64; 14] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0,
];

type Labels = Vec<(&'static str, String)>;
type Histograms = Family<Labels, Histogram, fn() -> Histogram>;

/// Metrics of the gateway.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    requests: Family<Labels, Counter>,
    refused: Family<Labels, Counter>,
    responses: Family<Labels, Counter>,
    unreachable: Family<Labels, Counter>,
    objective: Family<Labels, Counter>,
    waits: Histograms,
    latencies: Histograms,
    waiting: Family<Labels, Gauge>,
    in_flight: Family<Labels, Gauge>,
    instances: Family<Labels, Gauge>,
    picks: Family<Labels, Counter>,
    picks_refused: Family<Labels, Counter>,
    picks_elsewhere: Family<Labels, Counter>,
    not_admitted: Family<Labels, Counter>,
    memory: Family<Labels, Gauge>,
    memory_limit: Family<Labels, Gauge>,
    gpus: GpuMetrics,
    engines: EngineMetrics,
    known: RwLock<BTreeMap<FunctionName, Arc<FunctionSeries>>>,
}

fn histogram() -> Histogram {
    Histogram::new(SECONDS)
}

fn of(function: &FunctionName) -> Labels {
    vec![
        ("namespace", function.namespace.clone()),
        ("function", function.name.clone()),
    ]
}

fn with(mut labels: Labels, name: &'static str, value: &str) -> Labels {
    labels.push((name, value.to_owned()));
    labels
}

impl Metrics {
    /// Creates metrics at zero.
    #[rustfmt::skip]
    pub fn new() -> Arc<Self> {
        let mut this = Self {
            registry: Registry::with_prefix("tetris_gateway"),
            requests: Family::default(),
            refused: Family::default(),
            responses: Family::default(),
            unreachable: Family::default(),
            objective: Family::default(),
            waits: Family::new_with_constructor(histogram),
            latencies: Family::new_with_constructor(histogram),
            waiting: Family::default(),
            in_flight: Family::default(),
            instances: Family::default(),
            picks: Family::default(),
            picks_refused: Family::default(),
            picks_elsewhere: Family::default(),
            not_admitted: Family::default(),
            memory: Family::default(),
            memory_limit: Family::default(),
            gpus: GpuMetrics::default(),
            engines: EngineMetrics::default(),
            known: RwLock::default(),
        };
        let registry = &mut this.registry;
        register_build_info(registry, "The gateway's version; always 1", env!("CARGO_PKG_VERSION"));
        registry.register("requests", "Requests that arrived, by function", this.requests.clone());
        registry.register("refused", "Requests that the gateway answered itself, by function and reason", this.refused.clone());
        registry.register("responses", "Requests that an instance got, by function, configuration and outcome", this.responses.clone());
        registry.register("unreachable", "Attempts to send that reached no instance, by function", this.unreachable.clone());
        registry.register("objective", "Served requests, by function and by whether they met the SLO from arrival to end", this.objective.clone());
        registry.register_with_unit("wait", "Time from arrival to an instance, by function", Unit::Seconds, this.waits.clone());
        registry.register_with_unit("latency", "Time from instance to end, by function and configuration", Unit::Seconds, this.latencies.clone());
        registry.register("waiting", "Requests that wait for an instance, by function", this.waiting.clone());
        registry.register("in_flight", "Requests at instances, by function", this.in_flight.clone());
        registry.register("instances", "Instances, by function and state: available, draining or ejected", this.instances.clone());
        registry.register("picks", "Instances that the endpoint picker gave to a data plane, by function", this.picks.clone());
        registry.register("picks_refused", "Requests that the endpoint picker let a data plane refuse, by reason", this.picks_refused.clone());
        registry.register("picks_elsewhere", "Requests that a data plane sent to another instance than the picked one, by function", this.picks_elsewhere.clone());
        registry.register("not_admitted", "Requests that were refused by their head, before a function was looked for, by reason", this.not_admitted.clone());
        registry.register_with_unit("memory", "Memory that clients make the gateway hold, by budget: heads with buffers of connections and unread output, or bodies", Unit::Bytes, this.memory.clone());
        registry.register_with_unit("memory_limit", "Size of the budget", Unit::Bytes, this.memory_limit.clone());
        this.gpus.register(registry);
        this.engines.register(registry);
        Arc::new(this)
    }

    /// Counts a request that names a function.
    pub(crate) fn arrived(self: &Arc<Self>, function: &FunctionName) -> Arrival {
        let series = self.series(function);
        series.requests.inc();
        Arrival {
            metrics: Arc::clone(self),
            series,
        }
    }

    /// Families of groups of engines.
    pub(crate) const fn engines(&self) -> &EngineMetrics {
        &self.engines
    }

    fn series(&self, function: &FunctionName) -> Arc<FunctionSeries> {
        {
            let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(series) = known.get(function) {
                return Arc::clone(series);
            }
        }
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let series = known.entry(function.clone()).or_insert_with(|| {
            let labels = of(function);
            let requests = self.requests.get_or_create_owned(&labels);
            Arc::new(FunctionSeries::new(function.clone(), labels, requests))
        });
        Arc::clone(series)
    }

    /// Forgets the arrivals and latencies of functions that are not among `routes`. Their series stay.
    pub(crate) fn keep(&self, routes: &Routes) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.retain(|name, _| routes.has(name));
    }

    /// Counts an instance that a data plane got from the endpoint picker.
    pub(crate) fn picked(&self, function: &FunctionName) {
        self.picks.get_or_create(&of(function)).inc();
    }

    /// Counts a request that a data plane refuses by word of the endpoint picker.
    pub(crate) fn pick_refused(&self, problem: &Problem) {
        let labels = vec![("reason", problem.reason.to_owned())];
        self.picks_refused.get_or_create(&labels).inc();
    }

    /// Counts a request refused by its head.
    pub(crate) fn not_admitted(&self, problem: &Problem) {
        let labels = vec![("reason", problem.reason.to_owned())];
        self.not_admitted.get_or_create(&labels).inc();
    }

    /// Takes the budgets as they are now.
    pub(crate) fn set_memory(&self, memory: &Memory) {
        for (name, budget) in [("heads", &memory.heads), ("bodies", &memory.bodies)] {
            let labels = vec![("budget", name.to_owned())];
            set(&self.memory, &labels, budget.used());
            set(&self.memory_limit, &labels, budget.total());
        }
    }

    /// Counts a request that a data plane sent elsewhere.
    pub(crate) fn picked_elsewhere(&self, function: &FunctionName) {
        self.picks_elsewhere.get_or_create(&of(function)).inc();
    }

    /// Reads a function's arrivals and its latencies of the last minute.
    pub(crate) fn with_recent<T>(
        &self,
        function: &FunctionName,
        read: impl FnOnce(&mut Recent) -> T,
    ) -> T {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        match known.get(function) {
            Some(series) => read(&mut series.recent()),
            None => read(&mut Recent::default()),
        }
    }

    /// Encodes all metrics as OpenMetrics text, with the loads of `routes` as they are now.
    ///
    /// # Errors
    ///
    /// Fails if a collector does.
    pub fn encode(&self, routes: &Routes) -> Result<String, fmt::Error> {
        for gauges in [&self.waiting, &self.in_flight, &self.instances] {
            gauges.clear();
        }
        for function in routes.functions() {
            let labels = of(function.name());
            let load = function.load();
            set(&self.waiting, &labels, load.waiting);
            set(&self.in_flight, &labels, load.in_flight);
            let endpoints = function.endpoints();
            let count = |holds: fn(&tetris_scaler_dispatch::InstanceLoad) -> bool| {
                endpoints
                    .iter()
                    .filter(|endpoint| holds(&endpoint.load))
                    .count()
            };
            let state = |state| with(labels.clone(), "state", state);
            set(&self.instances, &state("available"), load.available);
            set(
                &self.instances,
                &state("draining"),
                count(|entry| entry.draining),
            );
            set(
                &self.instances,
                &state("ejected"),
                count(|entry| entry.ejected),
            );
        }
        self.gpus
            .set(routes.pools().iter().map(|pool| pool.report()));
        self.engines
            .set(routes.engine_groups().iter().map(|group| group.page()));
        encode([&self.registry])
    }
}

fn set(gauges: &Family<Labels, Gauge>, labels: &Labels, value: usize) {
    gauges
        .get_or_create(labels)
        .set(i64::try_from(value).unwrap_or(i64::MAX));
}

/// A request that arrived.
#[derive(Debug)]
pub(crate) struct Arrival {
    metrics: Arc<Metrics>,
    series: Arc<FunctionSeries>,
}

impl Arrival {
    /// Counts it as load: it may wait for an instance. Requests that its function is not for start none.
    pub(crate) fn admitted(&self) {
        self.series.recent().arrived();
    }

    /// The gateway answered it itself.
    pub(crate) fn refused(&self, problem: &Problem) {
        let labels = with(self.series.labels.clone(), "reason", problem.reason);
        self.metrics.refused.get_or_create(&labels).inc();
    }

    /// Counts its wait for an instance.
    pub(crate) fn waited(&self, waited: Duration) {
        let create = || self.metrics.waits.get_or_create_owned(&self.series.labels);
        let waits = self.series.waits.get_or_init(create);
        waits.observe(waited.as_secs_f64());
    }

    /// Counts an attempt to send it that reached no instance.
    pub(crate) fn unreachable(&self) {
        let unreachable = &self.metrics.unreachable;
        unreachable.get_or_create(&self.series.labels).inc();
    }

    /// Begins the count of its stay at an instance.
    pub(crate) fn dispatched(&self, of: Dispatch<'_>) -> Dispatched {
        Dispatched {
            metrics: Arc::clone(&self.metrics),
            series: Arc::clone(&self.series),
            configuration: self.series.of(of.configuration),
            arrived_at: of.arrived_at,
            sent_at: of.sent_at,
            slo: of.slo,
            span: of.span.clone(),
            ended: false,
        }
    }
}

/// Parts of a request that an instance gets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dispatch<'a> {
    pub(crate) configuration: &'a str,
    pub(crate) arrived_at: Instant,
    pub(crate) sent_at: Instant,
    pub(crate) slo: Duration,
    /// Span of the request, which lasts to its end.
    pub(crate) span: &'a Span,
}

/// A request that an instance got. Dropped before its end, its client has left.
#[derive(Debug)]
pub(crate) struct Dispatched {
    metrics: Arc<Metrics>,
    series: Arc<FunctionSeries>,
    configuration: Arc<ConfigurationSeries>,
    arrived_at: Instant,
    sent_at: Instant,
    slo: Duration,
    span: Span,
    ended: bool,
}

impl Dispatched {
    /// Its function.
    pub(crate) fn function(&self) -> &FunctionName {
        &self.series.name
    }

    /// Counts its end by a whole answer, a fault of the instance if it `failed`. Its batch waited to be filled for
    /// `filling`.
    pub(crate) fn answered(self, failed: bool, filling: Duration) {
        self.end(RequestOutcome::whole(failed), filling);
    }

    /// Counts its end.
    pub(crate) fn ended(self, outcome: RequestOutcome) {
        self.end(outcome, Duration::ZERO);
    }

    fn end(mut self, outcome: RequestOutcome, filling: Duration) {
        self.ended = true;
        self.span.record("outcome", outcome.label());
        if outcome == RequestOutcome::Served {
            self.served(filling);
        } else {
            self.outcome(outcome).inc();
        }
    }

    fn served(&self, filling: Duration) {
        let Self {
            metrics,
            series,
            configuration,
            ..
        } = self;
        let served = configuration
            .served
            .get_or_init(|| self.outcome(RequestOutcome::Served));
        served.inc();
        let now = Instant::now();
        let latency = now.saturating_duration_since(self.sent_at);
        let create = || metrics.latencies.get_or_create_owned(&configuration.labels);
        let latencies = configuration.latencies.get_or_init(create);
        latencies.observe(latency.as_secs_f64());
        // The operator compares this with the profile, which has full batches.
        let in_service = latency.saturating_sub(filling);
        series.recent().served(in_service, now);
        let in_time = now.saturating_duration_since(self.arrived_at) <= self.slo;
        let (counter, met) = if in_time {
            (&series.met, "yes")
        } else {
            (&series.missed, "no")
        };
        let create = || {
            let labels = with(series.labels.clone(), "met", met);
            metrics.objective.get_or_create_owned(&labels)
        };
        counter.get_or_init(create).inc();
    }

    fn outcome(&self, outcome: RequestOutcome) -> Counter {
        let labels = with(
            self.configuration.labels.clone(),
            "outcome",
            outcome.label(),
        );
        self.metrics.responses.get_or_create_owned(&labels)
    }
}

impl Drop for Dispatched {
    fn drop(&mut self) {
        if !self.ended {
            self.span.record("outcome", RequestOutcome::Left.label());
            self.outcome(RequestOutcome::Left).inc();
        }
    }
}
