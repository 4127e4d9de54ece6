//! Reports of this process, sent to others.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::http::Method;
use tetris_service_kit::shutdown::until;
use tetris_service_kit::unix_http::UnixClient;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::process::Process;
use crate::report::process_report::{ProcessReport, REPORT_EVERY};

/// Longest wait for a process to take a report.
const TAKEN: Duration = Duration::from_secs(2);
/// Time until another attempt.
const AGAIN: Duration = Duration::from_secs(1);
/// Failures in a row that are worth a warning: the processes start one after the other.
const FAILURES: u32 = 10;
/// Shortest time between two reports.
const LEAST: Duration = Duration::from_millis(100);

/// Sends the report of `process` to each of these sockets, every 5 s and after each change that
/// `changes` tells, until `stopped`. One that is away, stopped or slow does not delay the others.
pub(crate) async fn send_reports<C: Clone + Send + Sync + 'static>(
    process: Process,
    sockets: Vec<(Process, PathBuf)>,
    report: impl Fn() -> ProcessReport + Send + Sync + 'static,
    changes: watch::Receiver<C>,
    stopped: watch::Receiver<bool>,
) {
    let report = Arc::new(report);
    let mut senders = JoinSet::new();
    for (to, socket) in sockets {
        let (report, mut changes) = (Arc::clone(&report), changes.clone());
        senders.spawn(async move {
            let client = UnixClient::new(socket, TAKEN);
            let path = format!("/reports/{process}");
            let mut failures = 0_u32;
            loop {
                changes.mark_unchanged();
                let sent = client.call::<_, ()>(Method::PUT, &path, &report()).await;
                let wait = match sent {
                    Ok(()) => {
                        if failures >= FAILURES {
                            tracing::info!(%to, "reports are taken again");
                        }
                        failures = 0;
                        REPORT_EVERY
                    }
                    Err(error) => {
                        failures = failures.saturating_add(1);
                        if failures == FAILURES {
                            tracing::warn!(%to, %error, "no report is taken");
                        } else {
                            tracing::debug!(%to, %error, failures, "a report was not taken");
                        }
                        AGAIN
                    }
                };
                tokio::time::sleep(LEAST).await;
                let _next = tokio::time::timeout(wait, changes.changed()).await;
            }
        });
    }
    until(stopped).await;
    senders.shutdown().await;
}
