//! Gauges and counters of the daemon's processes, where it has several.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Unit;

use super::families::{Families, Labels};
use crate::process::Process;
use crate::report::process_report::Usage;

/// Use of the machine by one process.
#[derive(Debug, Clone, Copy)]
pub struct ProcessSample {
    /// The process.
    pub process: Process,
    /// Its use of the machine; none if it does not report.
    pub usage: Option<Usage>,
}

/// The processes as metrics.
#[derive(Debug)]
pub(super) struct ProcessMetrics(pub Vec<ProcessSample>);

impl Collector for ProcessMetrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut out = Families(encoder);
        let up = |sample: &ProcessSample| u64::from(sample.usage.is_some());
        out.family(
            "process_up",
            None,
            "1 when the process of the daemon reports.",
            self.0.iter().map(|sample| (by(sample.process), up(sample))),
        )?;
        let used = || {
            let samples = self.0.iter();
            samples.filter_map(move |sample| Some((by(sample.process), sample.usage?)))
        };
        let counters =
            |of: fn(Usage) -> u64| used().map(move |(labels, usage)| (labels, of(usage)));
        out.counters(
            "process_cpu",
            Some(&Unit::Seconds),
            "User and system CPU time of each process.",
            used().map(|(labels, usage)| (labels, usage.cpu_ms as f64 / 1000.0)),
        )?;
        out.family(
            "process_resident_memory",
            Some(&Unit::Bytes),
            "Resident memory of each process.",
            counters(|usage| usage.resident_bytes),
        )?;
        out.family(
            "process_open_files",
            None,
            "Open files of each process.",
            counters(|usage| usage.open_files),
        )?;
        out.family(
            "process_threads",
            None,
            "Threads of each process.",
            counters(|usage| usage.threads),
        )
    }
}

fn by(process: Process) -> Labels<'static> {
    vec![("process", process.name())]
}
