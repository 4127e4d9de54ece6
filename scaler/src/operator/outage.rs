//! A watch that fails: what is logged of it, and how long the API server asks to be left alone.

use std::sync::Arc;
use std::time::Duration;

use kube::core::Status;
use kube::runtime::watcher::Error;
use tokio::time::Instant;

use crate::metrics::Metrics;

/// Time for which a server may put requests off before the operator warns.
const PATIENCE: Duration = Duration::from_secs(30);

/// The longest wait that a server may ask for. One that asks for more is asked again all the same.
const RETRY_AFTER_MAX: Duration = Duration::from_mins(5);

/// State of the watch of one kind of object.
#[derive(Debug)]
pub struct Outage {
    kind: &'static str,
    metrics: Arc<Metrics>,
    /// Since when the server has done nothing but put requests off.
    put_off: Option<Instant>,
}

impl Outage {
    /// None yet, of the watch of `kind`.
    pub fn new(kind: &'static str, metrics: &Arc<Metrics>) -> Self {
        Self {
            kind,
            metrics: Arc::clone(metrics),
            put_off: None,
        }
    }

    /// The server has answered.
    pub fn answered(&mut self) {
        self.put_off = None;
    }

    /// Logs `error`, and returns how long the server asks to be left alone.
    ///
    /// A server that starts, or has a new kind of resource, puts requests off until its storage is initialized: nothing
    /// is wrong unless that lasts.
    pub fn failed(&mut self, error: &Error) -> Duration {
        let (kind, status) = (self.kind, status(error));
        let is_put_off = status.is_some_and(|status| status.code == 429);
        self.put_off = is_put_off.then(|| self.put_off.unwrap_or_else(Instant::now));
        let has_patience = |since: Instant| since.elapsed() < PATIENCE;
        if self.put_off.is_some_and(has_patience) {
            tracing::debug!("watch of {kind}: the API server asks to be watched later: {error}");
        } else {
            self.metrics.failed("watch");
            tracing::warn!("watch of {kind}: {error}");
        }
        retry_after(status)
    }
}

/// Returns the wait that the status of an answer names. Kube does not hand out the header `Retry-After`; an answer that has it alone is met
/// by the backoff.
fn retry_after(status: Option<&Status>) -> Duration {
    let details = status.and_then(|status| status.details.as_ref());
    let seconds = details.map_or(0, |details| details.retry_after_seconds);
    Duration::from_secs(seconds.into()).min(RETRY_AFTER_MAX)
}

fn status(error: &Error) -> Option<&Status> {
    match error {
        Error::WatchError(status)
        | Error::InitialListFailed(kube::Error::Api(status))
        | Error::WatchStartFailed(kube::Error::Api(status))
        | Error::WatchFailed(kube::Error::Api(status)) => Some(status),
        _ => None,
    }
}
