//! Prometheus metrics. The number of series is bounded by the functions and their configurations.

mod decided;
mod gates;

use std::sync::Arc;

use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use tetris_service_kit::metrics::{ByLabel, encode, register_build_info};
use tokio::sync::watch;

use crate::state::Snapshot;
use decided::Decided;
use gates::Gates;

/// Upper bounds of the histogram of pass durations, in seconds.
const SECONDS: [f64; 10] = [0.0005, 0.001, 0.002, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0];

/// Metrics of the scaler.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    errors: ByLabel,
    writes: ByLabel,
    decision: Histogram,
    leads: Gauge,
    nodes: Gauge,
    gateways_ready: Gauge,
    gateways_answering: Gauge,
    gates: Gates,
}

impl Metrics {
    /// Creates metrics at zero. Each scrape reads the last decision from `snapshots`.
    pub fn new(snapshots: watch::Receiver<Arc<Snapshot>>) -> Self {
        let mut metrics = Self::empty();
        metrics.register(snapshots);
        metrics
    }

    /// Creates metrics of a process that only opens gates.
    pub fn of_gates() -> Self {
        let mut metrics = Self::empty();
        metrics.register_common();
        metrics.gates.register(&mut metrics.registry);
        metrics
    }

    fn empty() -> Self {
        Self {
            registry: Registry::with_prefix("tetris_scaler"),
            errors: ByLabel::default(),
            writes: ByLabel::default(),
            decision: Histogram::new(SECONDS),
            leads: Gauge::default(),
            nodes: Gauge::default(),
            gateways_ready: Gauge::default(),
            gateways_answering: Gauge::default(),
            gates: Gates::default(),
        }
    }

    /// Registers the metrics of both processes.
    fn register_common(&mut self) {
        let registry = &mut self.registry;
        let version = env!("CARGO_PKG_VERSION");
        register_build_info(registry, "The scaler's version; always 1", version);
        registry.register("errors", "Errors, by class", self.errors.clone());
    }

    #[rustfmt::skip]
    fn register(&mut self, snapshots: watch::Receiver<Arc<Snapshot>>) {
        self.register_common();
        let registry = &mut self.registry;
        registry.register("writes", "Writes to the API server that succeeded, by kind", self.writes.clone());
        registry.register_with_unit("decision", "Time to plan for all functions", Unit::Seconds, self.decision.clone());
        registry.register("leader", "1 if this replica holds the lease, else 0", self.leads.clone());
        registry.register("inventory_nodes", "Number of nodes with a known tensor inventory", self.nodes.clone());
        registry.register("gateways_ready", "Number of ready gateways", self.gateways_ready.clone());
        registry.register("gateways_answering", "Number of ready gateways that answered within the last seconds", self.gateways_answering.clone());
        self.gates.register(registry);
        self.gates.register_replaced(registry);
        registry.register_collector(Box::new(Decided(snapshots)));
    }

    /// Counts an error of `class`.
    pub fn failed(&self, class: &'static str) {
        self.errors.get_or_create(&[("class", class)]).inc();
    }

    /// Counts a write of `kind`.
    pub fn wrote(&self, kind: &'static str) {
        self.writes.get_or_create(&[("kind", kind)]).inc();
    }

    /// Counts a gate opened after `seconds`.
    pub fn opened(&self, reason: &'static str, seconds: f64) {
        self.gates.opened(reason, seconds);
    }

    /// Counts a pod that was deleted because its node did not take it.
    pub fn replaced(&self) {
        self.gates.replaced();
    }

    /// Records a plan that took `seconds`.
    pub fn planned(&self, seconds: f64) {
        self.decision.observe(seconds);
    }

    /// Sets the leadership of this replica, and the number of nodes with a known inventory.
    pub fn state(&self, leads: bool, nodes: usize) {
        self.leads.set(i64::from(leads));
        self.nodes.set(i64::try_from(nodes).unwrap_or(i64::MAX));
    }

    /// Sets the number of ready gateways, and of those that answer.
    pub fn gateways(&self, ready: usize, answering: usize) {
        let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.gateways_ready.set(count(ready));
        self.gateways_answering.set(count(answering));
    }

    /// Encodes all metrics as OpenMetrics text.
    pub fn encode(&self) -> Result<String, std::fmt::Error> {
        encode([&self.registry])
    }
}
