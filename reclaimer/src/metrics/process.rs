//! The daemon's own process, under the names that all Prometheus clients use.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

use crate::own_usage::{cpu_time, resident_bytes};

/// The process, which is looked at for each scrape. Unreadable values are left out.
#[derive(Debug)]
pub(super) struct Process {
    /// Time at which its metrics were made.
    started: SystemTime,
}

impl Process {
    /// Creates metrics of a process that has just started.
    pub(super) fn new() -> Self {
        let started = SystemTime::now();
        Self { started }
    }
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        if let Some(cpu) = cpu_time() {
            let metric = ConstCounter::new(cpu.as_secs_f64());
            write(
                &mut encoder,
                "process_cpu",
                "User and system CPU time of the daemon.",
                &Unit::Seconds,
                &metric,
            )?;
        }
        if let Ok(start) = self.started.duration_since(UNIX_EPOCH) {
            let metric = ConstGauge::new(start.as_secs_f64());
            write(
                &mut encoder,
                "process_start_time",
                "When the daemon started, in seconds since the epoch.",
                &Unit::Seconds,
                &metric,
            )?;
        }
        if let Some(bytes) = resident_bytes() {
            let metric = ConstGauge::new(bytes);
            write(
                &mut encoder,
                "process_resident_memory",
                "Resident memory of the daemon.",
                &Unit::Bytes,
                &metric,
            )?;
        }
        Ok(())
    }
}

fn write(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    unit: &Unit,
    metric: &impl EncodeMetric,
) -> fmt::Result {
    metric.encode(encoder.encode_descriptor(name, help, Some(unit), metric.metric_type())?)
}
