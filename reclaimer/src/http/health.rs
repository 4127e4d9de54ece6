//! Liveness and readiness of the daemon.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tetris_service_kit::http::NotReady;
use tokio::time::Instant;

use crate::report::NodeStatus;

/// The heartbeat of the daemon's loop.
#[derive(Debug)]
pub struct Health {
    limit: Duration,
    last: Mutex<Instant>,
    missing: Option<Missing>,
}

/// Describes what the daemon waits for, one thing on each line.
struct Missing(Box<dyn Fn() -> Vec<String> + Send + Sync>);

impl std::fmt::Debug for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Missing")
    }
}

impl Health {
    /// The loop must report within `limit`, from now on. Leave room for the longest pass: a loop in
    /// one reports nothing.
    pub fn new(limit: Duration) -> Self {
        Self {
            limit,
            last: Mutex::new(Instant::now()),
            missing: None,
        }
    }

    /// The daemon is ready only when `missing` is empty. The reasons name no store.
    #[must_use]
    pub fn with_missing(
        mut self,
        missing: impl Fn() -> Vec<String> + Send + Sync + 'static,
    ) -> Self {
        self.missing = Some(Missing(Box::new(missing)));
        self
    }

    /// The loop runs.
    pub fn beat(&self) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Returns an error with the reason if the loop has stopped.
    pub fn check(&self) -> Result<(), NotReady> {
        let age = self
            .last
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .elapsed();
        if age < self.limit {
            return Ok(());
        }
        Err(NotReady::because(format!(
            "the daemon's loop last reported {} s ago; it must within {} s",
            age.as_secs(),
            self.limit.as_secs()
        )))
    }
}

/// Returns an error with all that the daemon's readiness lacks, line by line.
pub(super) fn ready(health: &Health, status: Option<&NodeStatus>) -> Result<(), NotReady> {
    let broken = |status: &NodeStatus| {
        let stores = status.stores.iter();
        let broken = stores
            .filter_map(|store| Some(format!("store {}: {}", store.name, store.error.as_ref()?)));
        broken.collect()
    };
    lacking(health, status, broken)
}

/// [`ready`] for clients that may not learn the names of stores.
pub(super) fn ready_in_brief(health: &Health, status: Option<&NodeStatus>) -> Result<(), NotReady> {
    let broken = |status: &NodeStatus| {
        let stores = status.stores.iter();
        match stores.filter(|store| store.error.is_some()).count() {
            0 => Vec::new(),
            broken => vec![format!(
                "{broken} of {} stores cannot be used; the log says which, and why",
                status.stores.len()
            )],
        }
    };
    lacking(health, status, broken)
}

fn lacking(
    health: &Health,
    status: Option<&NodeStatus>,
    broken: impl Fn(&NodeStatus) -> Vec<String>,
) -> Result<(), NotReady> {
    let mut missing = match status {
        Some(status) => broken(status),
        None => vec!["no pass has ended yet".to_owned()],
    };
    if let Some(Missing(others)) = &health.missing {
        missing.extend(others());
    }
    NotReady::unless_none(missing)
}
