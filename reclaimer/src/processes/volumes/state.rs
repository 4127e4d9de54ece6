//! State of the process, as its reports have it.

use std::collections::BTreeMap;

use tokio::sync::watch;

use crate::engine::commands::now_ms;
use crate::process::Process;
use crate::report::process_report::{ProcessReport, SandboxReport, Usage, VolumesReport};
use crate::report::{ErrorClass, VolumeStatus};

/// Changing parts of the report.
#[derive(Debug)]
pub(super) struct VolumesState {
    started_ms: u64,
    now: watch::Sender<Changing>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Changing {
    errors: BTreeMap<&'static str, u64>,
    /// None without a CSI driver.
    volumes: Option<VolumesReport>,
}

impl VolumesState {
    pub(super) fn new() -> Self {
        Self {
            started_ms: now_ms(),
            now: watch::channel(Changing::default()).0,
        }
    }

    /// Counts an error.
    pub(super) fn error(&self, class: ErrorClass) {
        self.now
            .send_modify(|now| *now.errors.entry(class.name()).or_default() += 1);
    }

    /// There is no CSI driver.
    pub(super) fn no_driver(&self) {
        self.change(|now| now.volumes = None);
    }

    /// Pods cannot get volumes, for this reason.
    pub(super) fn waiting(&self, reason: String) {
        self.change(|now| {
            let volumes = now.volumes.get_or_insert_default();
            (volumes.registered, volumes.waiting_for) = (false, Some(reason));
        });
    }

    /// The kubelet has registered the driver.
    pub(super) fn registered(&self) {
        self.change(|now| {
            let volumes = now.volumes.get_or_insert_default();
            (volumes.registered, volumes.waiting_for) = (true, None);
        });
    }

    /// Pods have these volumes.
    pub(super) fn counted(&self, counts: VolumeStatus) {
        self.change(|now| now.volumes.get_or_insert_default().counts = counts);
    }

    fn change(&self, change: impl FnOnce(&mut Changing)) {
        self.now.send_if_modified(|now| {
            let before = now.clone();
            change(now);
            *now != before
        });
    }

    /// Reports each change.
    pub(super) fn changes(&self) -> watch::Receiver<Changing> {
        self.now.subscribe()
    }

    /// The report of this moment.
    pub(super) fn report(&self) -> ProcessReport {
        let now = self.now.borrow().clone();
        let errors = now.errors.into_iter();
        ProcessReport {
            process: Process::Volumes,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_ms: self.started_ms,
            errors: errors
                .map(|(class, total)| (class.to_owned(), total))
                .collect(),
            usage: Usage::of_this_process(),
            volumes: now.volumes,
            sandbox: SandboxReport::of_this_process(),
        }
    }
}
