//! Readiness of this replica for the API server.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tetris_service_kit::http::NotReady;

use crate::certificates::{Clock, Serving};

/// Readiness of this replica for the API server.
pub struct Readiness {
    serving: Arc<Serving>,
    clock: Clock,
    synced: AtomicBool,
    stopping: AtomicBool,
    last_error: Mutex<Option<String>>,
}

impl Readiness {
    /// Not ready yet.
    pub fn new(serving: Arc<Serving>, clock: Clock) -> Self {
        Self {
            serving,
            clock,
            synced: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            last_error: Mutex::default(),
        }
    }

    /// The API server has been configured to trust what is served. It stays so when it cannot be reached later.
    pub fn synced(&self) {
        self.synced.store(true, Ordering::Relaxed);
        *self.error() = None;
    }

    /// It could not be updated, and why.
    pub fn failed(&self, reason: String) {
        *self.error() = Some(reason);
    }

    /// The server is about to stop.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// Returns true if the server is about to stop.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// Returns the reason the replica is not ready, if it is not.
    pub fn check(&self) -> Result<(), NotReady> {
        if self.is_stopping() {
            return Err(NotReady::because("stopping"));
        }
        let because = |what: &str| match self.error().as_deref() {
            Some(error) => NotReady::because(format!("{what}: {error}")),
            None => NotReady::because(what),
        };
        if !self.synced.load(Ordering::Relaxed) {
            return Err(because("no certificate yet that the API server trusts"));
        }
        match self.serving.served() {
            Some(served) if served.validity.contains((self.clock)()) => Ok(()),
            _ => Err(because("the certificate is not valid now")),
        }
    }

    fn error(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        self.last_error
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Readiness {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Readiness").field(&self.check()).finish()
    }
}
