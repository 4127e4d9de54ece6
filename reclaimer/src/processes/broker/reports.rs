//! Reports that other processes have sent to this one.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::process::Process;
use crate::report::ErrorClass;
use crate::report::process_report::{ProcessReport, REPORT_OLD};

/// The latest report of each process.
#[derive(Debug, Default)]
pub struct ReceivedReports(Mutex<BTreeMap<Process, (Instant, ProcessReport)>>);

impl ReceivedReports {
    /// Takes a report over. Returns the errors that it counts beyond the one before; of one that
    /// started anew, all of them.
    pub fn take(&self, report: ProcessReport) -> Vec<(ErrorClass, u64)> {
        let mut reports = self.lock();
        let before = reports
            .get(&report.process)
            .filter(|(_, before)| before.started_ms == report.started_ms);
        let counted = |class: &ErrorClass| {
            let earlier = before.and_then(|(_, before)| before.errors.get(class.name()));
            let now = report.errors.get(class.name()).copied().unwrap_or_default();
            now.saturating_sub(earlier.copied().unwrap_or_default())
        };
        let classes = ErrorClass::ALL.into_iter();
        let more = classes.map(|class| (class, counted(&class)));
        let more = more.filter(|(_, more)| *more > 0).collect();
        reports.insert(report.process, (Instant::now(), report));
        more
    }

    /// The latest report of a process; none if it is too old.
    pub fn latest(&self, process: Process) -> Option<ProcessReport> {
        let reports = self.lock();
        let (at, report) = reports.get(&process)?;
        (at.elapsed() < REPORT_OLD).then(|| report.clone())
    }

    /// Returns the reason why a process counts as silent, if it does.
    pub fn silence(&self, process: Process) -> Option<String> {
        match self.lock().get(&process) {
            None => Some(format!("`tetris-node {process}` has not reported yet")),
            Some((at, _)) if at.elapsed() >= REPORT_OLD => Some(format!(
                "`tetris-node {process}` last reported {} s ago; it must within {} s",
                at.elapsed().as_secs(),
                REPORT_OLD.as_secs()
            )),
            Some(_) => None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Process, (Instant, ProcessReport)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(started_ms: u64, errors: &[(&str, u64)]) -> ProcessReport {
        let errors = errors
            .iter()
            .map(|(class, total)| ((*class).to_owned(), *total));
        ProcessReport {
            process: Process::Volumes,
            version: String::new(),
            started_ms,
            errors: errors.collect(),
            usage: crate::report::process_report::Usage::default(),
            volumes: None,
            sandbox: crate::report::process_report::SandboxReport::default(),
        }
    }

    #[test]
    fn each_error_counts_once_and_an_unknown_class_never() {
        let reports = ReceivedReports::default();
        assert_eq!(
            reports.take(report(1, &[("csi", 2), ("later", 9)])),
            [(ErrorClass::Csi, 2)]
        );
        assert_eq!(reports.take(report(1, &[("csi", 2)])), []);
        let more = [("csi", 5), ("mount", 1)];
        let expected = [(ErrorClass::Mount, 1), (ErrorClass::Csi, 3)];
        assert_eq!(reports.take(report(1, &more)), expected);
        // Started again: it counts from 0.
        assert_eq!(
            reports.take(report(2, &[("csi", 1)])),
            [(ErrorClass::Csi, 1)]
        );
    }

    #[test]
    fn a_process_that_never_reported_is_named() {
        let reports = ReceivedReports::default();
        let missing = reports.silence(Process::Volumes).unwrap();
        assert_eq!(missing, "`tetris-node volumes` has not reported yet");
        reports.take(report(1, &[]));
        assert_eq!(reports.silence(Process::Volumes), None);
        assert!(reports.latest(Process::Volumes).is_some());
        assert!(reports.latest(Process::Cluster).is_none());
    }
}
