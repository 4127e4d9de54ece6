//! Latest reports of the processes that have no their own pages.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tetris_service_kit::http::NotReady;
use tokio::time::Instant;

use crate::process::Process;
use crate::report::process_report::{ProcessReport, REPORT_OLD};

/// Age from which a process counts as dead. It reports every few seconds.
const DEAD: Duration = Duration::from_secs(30);

/// Reports of `volumes` and `mirror`, as far as they are expected on this node.
#[derive(Debug)]
pub struct Reports {
    started: Instant,
    volumes: bool,
    mirror: bool,
    latest: Mutex<Latest>,
}

#[derive(Debug, Default)]
struct Latest {
    volumes: Option<Heard>,
    mirror: Option<Heard>,
}

/// The parts of a report that matter here.
#[derive(Debug)]
struct Heard {
    at: Instant,
    /// The reason that pods get no volumes; none of a process without a driver.
    waiting_for: Option<String>,
}

impl Reports {
    /// Expects reports of `volumes` and `mirror` where they are true. Processes have until
    /// [`REPORT_OLD`] from now on for their first one.
    pub fn new(volumes: bool, mirror: bool) -> Self {
        Self {
            started: Instant::now(),
            volumes,
            mirror,
            latest: Mutex::default(),
        }
    }

    /// Takes a report. Those of other processes are of no use here.
    pub fn take(&self, report: ProcessReport) {
        let waiting_for = match report.volumes {
            Some(volumes) if !volumes.registered => {
                let because = volumes.waiting_for.unwrap_or_default();
                Some(because)
            }
            _ => None,
        };
        let heard = Heard {
            at: Instant::now(),
            waiting_for,
        };
        let mut latest = self.latest();
        match report.process {
            Process::Volumes => latest.volumes = Some(heard),
            Process::Mirror => latest.mirror = Some(heard),
            Process::Broker | Process::Cluster => {}
        }
    }

    /// Returns an error with the reason if a process has not reported for [`DEAD`].
    pub(super) fn lives(&self, process: Process) -> Result<(), NotReady> {
        let latest = self.latest();
        let heard = match process {
            Process::Volumes => &latest.volumes,
            _ => &latest.mirror,
        };
        let silent = self.silence(DEAD, process, heard.as_ref());
        NotReady::unless_none(silent.into_iter().collect())
    }

    /// Parts that the node's readiness lacks, as far as these processes know. A brief one has no
    /// details.
    pub(super) fn missing(&self, brief: bool) -> Vec<String> {
        let latest = self.latest();
        let mut missing = Vec::new();
        if self.volumes {
            let heard = latest.volumes.as_ref();
            let silent = self.silence(REPORT_OLD, Process::Volumes, heard);
            missing.extend(silent.or_else(|| not_registered(heard, brief)));
        }
        if self.mirror {
            let silent = self.silence(REPORT_OLD, Process::Mirror, latest.mirror.as_ref());
            missing.extend(silent);
        }
        missing
    }

    /// Returns the reason why a process counts as silent, if it has not been heard within `limit`.
    fn silence(&self, limit: Duration, process: Process, heard: Option<&Heard>) -> Option<String> {
        let age = heard.map_or(self.started, |heard| heard.at).elapsed();
        if age < limit {
            return None;
        }
        let age = age.as_secs();
        let last = match heard {
            Some(_) => format!("last reported {age} s ago"),
            None => format!("has not reported in the {age} s since `tetris-node cluster` began"),
        };
        Some(format!(
            "`tetris-node {process}` {last}; it must within {} s: its log says why it does not",
            limit.as_secs()
        ))
    }

    fn latest(&self) -> MutexGuard<'_, Latest> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the reason that pods get no volumes yet.
fn not_registered(heard: Option<&Heard>, brief: bool) -> Option<String> {
    let Some(heard) = heard else {
        // The first report comes a moment after this process begins.
        return Some("`tetris-node volumes` has not reported yet".to_owned());
    };
    let because = match heard.waiting_for.as_deref()? {
        because if !brief && !because.is_empty() => format!(": {because}"),
        _ => "; the log of `tetris-node volumes` says more".to_owned(),
    };
    Some(format!(
        "the kubelet has not registered the CSI driver{because}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::process_report::{SandboxReport, Usage, VolumesReport};

    fn report(process: Process, volumes: VolumesReport) -> ProcessReport {
        ProcessReport {
            process,
            version: "1".to_owned(),
            started_ms: 0,
            errors: [].into(),
            usage: Usage::default(),
            volumes: Some(volumes),
            sandbox: SandboxReport::default(),
        }
    }

    fn driver(registered: bool, waiting_for: Option<&str>) -> VolumesReport {
        VolumesReport {
            registered,
            waiting_for: waiting_for.map(str::to_owned),
            ..VolumesReport::default()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_lives_while_it_reports_and_has_time_for_its_first_report() {
        let reports = Reports::new(true, true);
        tokio::time::advance(Duration::from_secs(29)).await;
        assert_eq!(reports.lives(Process::Mirror), Ok(()));
        reports.take(report(Process::Volumes, driver(true, None)));
        tokio::time::advance(Duration::from_secs(1)).await;
        let dead = reports.lives(Process::Mirror).unwrap_err().to_string();
        assert!(
            dead.contains("`tetris-node mirror` has not reported in the 30 s"),
            "{dead}"
        );
        assert_eq!(reports.lives(Process::Volumes), Ok(()));
        tokio::time::advance(Duration::from_secs(29)).await;
        let dead = reports.lives(Process::Volumes).unwrap_err().to_string();
        assert!(
            dead.contains("`tetris-node volumes` last reported 30 s ago"),
            "{dead}"
        );
        reports.take(report(Process::Volumes, driver(true, None)));
        assert_eq!(reports.lives(Process::Volumes), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn readiness_lacks_expected_processes_and_a_driver_that_is_not_registered() {
        let reports = Reports::new(true, true);
        assert_eq!(
            reports.missing(true),
            ["`tetris-node volumes` has not reported yet"]
        );
        reports.take(report(Process::Volumes, driver(false, Some("no socket"))));
        let missing = "the kubelet has not registered the CSI driver";
        assert_eq!(reports.missing(false), [format!("{missing}: no socket")]);
        let brief = reports.missing(true);
        assert!(
            brief.len() == 1 && brief[0].starts_with(missing),
            "{brief:?}"
        );
        assert!(!brief[0].contains("no socket"), "{brief:?}");
        reports.take(report(Process::Volumes, driver(true, None)));
        assert_eq!(reports.missing(true), [""; 0]);
        tokio::time::advance(REPORT_OLD).await;
        assert_eq!(reports.missing(true).len(), 2);
        assert_eq!(Reports::new(false, false).missing(true), [""; 0]);
    }
}
