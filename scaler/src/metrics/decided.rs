//! Metrics of the last decision, computed at each scrape.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use tokio::sync::watch;

use crate::state::{Snapshot, infeasible};

/// Collector that reads the last snapshot.
#[derive(Debug)]
pub(super) struct Decided(pub watch::Receiver<Arc<Snapshot>>);

impl Collector for Decided {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let snapshot = Arc::clone(&self.0.borrow());
        targets(&snapshot, &mut encoder)?;
        loads(&snapshot, &mut encoder)?;
        infeasible_functions(&snapshot, &mut encoder)?;
        failing(&snapshot, &mut encoder)?;
        let seconds = snapshot.decided_ms as f64 / 1_000.0;
        let name = "decided_timestamp_seconds";
        let help = "Time of the last decision since the epoch; 0 before the first";
        let metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        ConstGauge::new(seconds).encode(metric)
    }
}

fn targets(snapshot: &Snapshot, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
    let help = "Number of instances that should run, by configuration";
    let mut family =
        encoder.encode_descriptor("target_instances", help, None, MetricType::Gauge)?;
    for (key, state) in &snapshot.functions {
        for name in state.configurations.iter() {
            let replicas = state.replicas(name).unwrap_or(0);
            let labels = [
                ("namespace", key.namespace.as_str()),
                ("function", key.name.as_str()),
                ("configuration", name.as_str()),
            ];
            ConstGauge::new(i64::from(replicas)).encode(family.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

fn loads(snapshot: &Snapshot, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
    let help = "Requests per second of functions with a known load";
    let name = "load_requests_per_second";
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (key, state) in &snapshot.functions {
        if let Some(load) = state.load {
            let labels = [
                ("namespace", key.namespace.as_str()),
                ("function", key.name.as_str()),
            ];
            let rps = load.micro_rps() as f64 / 1e6;
            ConstGauge::new(rps).encode(family.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

fn infeasible_functions(
    snapshot: &Snapshot,
    encoder: &mut DescriptorEncoder<'_>,
) -> Result<(), fmt::Error> {
    let help = "Functions whose load cannot be carried: always 1, with the reason of the condition Feasible";
    let mut family =
        encoder.encode_descriptor("infeasible_function", help, None, MetricType::Gauge)?;
    for (key, state) in &snapshot.functions {
        if let Some(reason) = infeasible(&state.decision.outcome) {
            let labels = [
                ("namespace", key.namespace.as_str()),
                ("function", key.name.as_str()),
                ("reason", reason),
            ];
            ConstGauge::new(1_i64).encode(family.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

fn failing(snapshot: &Snapshot, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
    let help = "Number of instances that do not serve and are not expected to soon, by reason";
    let mut family =
        encoder.encode_descriptor("failing_instances", help, None, MetricType::Gauge)?;
    for (key, state) in &snapshot.functions {
        for (reason, count) in &state.failing {
            let labels = [
                ("namespace", key.namespace.as_str()),
                ("function", key.name.as_str()),
                ("reason", reason),
            ];
            ConstGauge::new(i64::from(*count)).encode(family.encode_family(&labels)?)?;
        }
    }
    Ok(())
}
