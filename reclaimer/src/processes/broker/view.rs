//! The other processes in `/status`, `/metrics` and `/readyz`.

use std::sync::Arc;

use super::ReceivedReports;
use crate::config::ConfigFile;
use crate::engine::commands::now_ms;
use crate::metrics::ProcessSample;
use crate::models::KeptModels;
use crate::process::Process;
use crate::report::process_report::{ProcessReport, SandboxReport, Usage};
use crate::report::{NodeStatus, ProcessStatus};

/// The processes of this daemon, as the broker knows them.
#[derive(Debug, Clone)]
pub(crate) struct ProcessesView {
    reports: Arc<ReceivedReports>,
    /// Processes that this configuration needs, beside the broker.
    expected: Vec<Process>,
    own: ProcessReport,
    models: KeptModels,
}

impl ProcessesView {
    /// The processes that `file` needs. This one is the broker, within these limits, and knows of `models`.
    pub(crate) fn new(
        file: &ConfigFile,
        reports: Arc<ReceivedReports>,
        sandbox: SandboxReport,
        models: KeptModels,
    ) -> Self {
        let needed = |process: &Process| match process {
            Process::Volumes => file.mount.is_some() || file.csi.is_some(),
            Process::Broker => false,
            Process::Cluster => file.kubernetes.enabled || file.network.is_served(),
            Process::Mirror => file.gpu_mirror.is_some(),
        };
        Self {
            reports,
            expected: Process::ALL.into_iter().filter(needed).collect(),
            own: ProcessReport {
                process: Process::Broker,
                version: env!("CARGO_PKG_VERSION").to_owned(),
                started_ms: now_ms(),
                errors: [].into(),
                usage: Usage::default(),
                volumes: None,
                sandbox,
            },
            models,
        }
    }

    /// Puts the processes, the counts of volumes and the models of pods into a status.
    pub(crate) fn amend(&self, status: &mut NodeStatus) {
        let volumes = self.reports.latest(Process::Volumes);
        status.volumes = volumes.and_then(|report| Some(report.volumes?.counts));
        status.processes = self.processes();
        status.kept = self.models.list();
    }

    /// Returns true if a status shows the processes as they are now.
    pub(crate) fn is_shown_by(&self, status: &NodeStatus) -> bool {
        let volumes = self.reports.latest(Process::Volumes);
        status.volumes == volumes.and_then(|report| Some(report.volumes?.counts))
            && status.processes == self.processes()
            && status.kept == self.models.list()
    }

    /// Processes that readiness lacks, one on each line.
    pub(crate) fn missing(&self) -> Vec<String> {
        let expected = self.expected.iter();
        let silent = expected.filter_map(|process| self.reports.silence(*process));
        silent.collect()
    }

    /// The processes' use of the machine, for metrics.
    pub(crate) fn samples(&self) -> Vec<ProcessSample> {
        let mut samples = vec![ProcessSample {
            process: Process::Broker,
            usage: Some(Usage::of_this_process()),
        }];
        samples.extend(self.expected.iter().map(|process| ProcessSample {
            process: *process,
            usage: self.reports.latest(*process).map(|report| report.usage),
        }));
        samples
    }

    fn processes(&self) -> Vec<ProcessStatus> {
        let mut shown = vec![ProcessStatus::of(&self.own)];
        shown.extend(self.expected.iter().map(|process| {
            let report = self.reports.latest(*process);
            report.map_or_else(
                || ProcessStatus::missing(*process),
                |report| ProcessStatus::of(&report),
            )
        }));
        shown
    }
}
