//! Processes of the daemon in the node's status.

use serde::Serialize;

use crate::process::Process;
use crate::report::process_report::{ProcessReport, SandboxReport};

/// One process of the daemon, by its latest report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProcessStatus {
    /// The process.
    pub process: Process,
    /// True if it reports. Without that the fields below are absent.
    pub reports: bool,
    /// Version of its binary.
    pub version: Option<String>,
    /// Time of its start, in milliseconds since the epoch.
    pub started_ms: Option<u64>,
    /// True if the kubelet has registered the CSI driver; only of `volumes`.
    pub registered: Option<bool>,
    /// The reason that pods cannot get volumes; only of `volumes`, and none where they can.
    pub waiting_for: Option<String>,
    /// Limits that the kernel holds it to.
    pub sandbox: Option<SandboxReport>,
}

impl ProcessStatus {
    /// A process that reports.
    pub fn of(report: &ProcessReport) -> Self {
        let volumes = report.volumes.as_ref();
        Self {
            process: report.process,
            reports: true,
            version: Some(report.version.clone()),
            started_ms: Some(report.started_ms),
            registered: volumes.map(|volumes| volumes.registered),
            waiting_for: volumes.and_then(|volumes| volumes.waiting_for.clone()),
            sandbox: Some(report.sandbox.clone()),
        }
    }

    /// A process that does not report.
    pub fn missing(process: Process) -> Self {
        Self {
            process,
            reports: false,
            version: None,
            started_ms: None,
            registered: None,
            waiting_for: None,
            sandbox: None,
        }
    }
}
