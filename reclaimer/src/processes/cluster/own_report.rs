//! The report of this process itself: its errors, all of one class.

use std::time::SystemTime;

use tokio::sync::watch;

use crate::process::Process;
use crate::records::millis;
use crate::report::ErrorClass;
use crate::report::process_report::{ProcessReport, SandboxReport, Usage};

/// This process, for its report.
#[derive(Debug)]
pub(crate) struct OwnReport {
    started_ms: u64,
    sandbox: SandboxReport,
    /// Number of errors with the API server.
    errors: watch::Sender<u64>,
}

impl OwnReport {
    /// A process that starts now, within these limits.
    pub(crate) fn new(sandbox: SandboxReport) -> Self {
        Self {
            started_ms: millis(SystemTime::now()),
            sandbox,
            errors: watch::Sender::new(0),
        }
    }

    /// Counts errors with the API server.
    pub(crate) fn count(&self, errors: u64) {
        self.errors.send_modify(|total| *total += errors);
    }

    /// Changes of the number of errors.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.errors.subscribe()
    }

    /// The report as of now.
    pub(crate) fn report(&self) -> ProcessReport {
        let class = ErrorClass::Kubernetes.name().to_owned();
        ProcessReport {
            process: Process::Cluster,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_ms: self.started_ms,
            errors: [(class, *self.errors.borrow())].into(),
            usage: Usage::of_this_process(),
            volumes: None,
            sandbox: self.sandbox.clone(),
        }
    }
}
