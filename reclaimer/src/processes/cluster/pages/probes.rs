//! Probes of each process: this one by its answer, the broker by asking it, the others by their
//! reports.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use tetris_service_kit::http::{NotReady, probe};
use tetris_service_kit::unix_http::UnixClient;

use super::FetchedPages;
use super::budget::Budget;
use super::fetch::FetchError;
use super::place::{Got, Place};
use crate::process::Process;
use crate::processes::cluster::reports::Reports;

/// Largest answer to a probe, in bytes. That of a node with 256 broken stores has 100 KiB.
const PROBE_BYTES: usize = 1 << 20;

/// Probes, by the broker's answers and the reports of the others.
#[derive(Debug)]
pub(super) struct Probes {
    broker: UnixClient,
    limit: Duration,
    healthz: Place,
    readyz: Place,
    readyz_in_brief: Place,
    budget: Budget,
    reports: Arc<Reports>,
}

impl Probes {
    /// Probes that ask the broker by this client, each within `limit`.
    pub(super) fn new(broker: UnixClient, limit: Duration, reports: Arc<Reports>) -> Self {
        let place = |path| Place::new(path, false, PROBE_BYTES, Duration::ZERO);
        Self {
            broker,
            limit,
            healthz: place("/healthz"),
            readyz: place("/readyz"),
            readyz_in_brief: place("/readyz?brief=true"),
            // An answer of each, and an older one that a client still reads.
            budget: Budget::new(6 * PROBE_BYTES),
            reports,
        }
    }

    /// The broker's own answer. An error has its reason, or that it does not answer.
    async fn ask(&self, place: &Place) -> Result<(), NotReady> {
        let reserve = |bytes| {
            let reserved = self.budget.reserve(bytes);
            reserved.ok_or_else(|| FetchError::NoMemory(self.budget.bytes()))
        };
        let asked = HeaderMap::new();
        let got = place.get(&self.broker, &asked, self.limit, reserve).await;
        match got {
            Ok(Got::Page { .. }) => Ok(()),
            Ok(Got::Refused(StatusCode::SERVICE_UNAVAILABLE, reason)) => {
                let reason = String::from_utf8_lossy(&reason);
                Err(NotReady::because(reason.trim_end()))
            }
            Ok(Got::Refused(status, _)) => {
                let socket = self.broker.path().display();
                Err(NotReady::because(format!(
                    "`{socket}` answered a probe with {status}, expected 200 or 503; check the version of `tetris-node broker`"
                )))
            }
            Ok(Got::Unchanged(_)) => Err(NotReady::because("the broker answered a probe with 304")),
            Err(error) => Err(NotReady::because(error.to_string())),
        }
    }

    async fn ready(&self, brief: bool) -> Result<(), NotReady> {
        let place = if brief {
            &self.readyz_in_brief
        } else {
            &self.readyz
        };
        let broker = self.ask(place).await.err();
        let mut missing: Vec<String> = broker.iter().map(ToString::to_string).collect();
        // The broker gets the same reports.
        let lines = self.reports.missing(brief).into_iter();
        let new_lines: Vec<String> = lines.filter(|line| !is_told(line, &missing)).collect();
        missing.extend(new_lines);
        NotReady::unless_none(missing)
    }
}

/// Returns true if `line` is about a process of which the broker's answer has a line.
fn is_told(line: &str, answer: &[String]) -> bool {
    let about = |line: &str| {
        let process = line.strip_prefix("`tetris-node ")?;
        Some(process.split_once('`')?.0.to_owned())
    };
    let Some(process) = about(line) else {
        return false;
    };
    let mut lines = answer.iter().flat_map(|answer| answer.lines());
    lines.any(|line| about(line).as_ref() == Some(&process))
}

/// Answers always: this process runs.
pub(super) async fn healthz() -> Response {
    probe(Ok(()))
}

pub(super) async fn broker(State(pages): State<FetchedPages>) -> Response {
    let probes = &pages.0.probes;
    probe(probes.ask(&probes.healthz).await)
}

pub(super) async fn volumes(State(pages): State<FetchedPages>) -> Response {
    probe(pages.0.probes.reports.lives(Process::Volumes))
}

pub(super) async fn mirror(State(pages): State<FetchedPages>) -> Response {
    probe(pages.0.probes.reports.lives(Process::Mirror))
}

pub(super) async fn readyz(State(pages): State<FetchedPages>) -> Response {
    probe(pages.0.probes.ready(false).await)
}

pub(super) async fn readyz_in_brief(State(pages): State<FetchedPages>) -> Response {
    probe(pages.0.probes.ready(true).await)
}
