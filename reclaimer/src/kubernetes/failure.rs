//! Failures of a watch of the API server, and the time of the next attempt.

use std::error::Error;
use std::time::Duration;

use kube::core::Status;
use kube::runtime::watcher;
use tokio::time::Instant;

/// The longest wait that a server may ask for. One that asks for more is asked again all the same.
const RETRY_AFTER_MAX: Duration = Duration::from_mins(5);

/// Time for which a server may put requests off without a warning.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// State of the watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WatchHealth {
    /// It works, or was not tried yet.
    Good,
    /// The server puts requests off, from this moment on.
    PutOff(Instant),
    /// It fails, and that was reported.
    Failing,
}

impl WatchHealth {
    /// State after `error`. A server that starts, or has a new kind of resource, puts requests off
    /// until its storage is initialized. That is a failure only if it lasts.
    pub(super) fn after(self, error: &watcher::Error) -> Self {
        let is_put_off = status(error).is_some_and(|status| status.code == 429);
        match self {
            Self::Good if is_put_off => Self::PutOff(Instant::now()),
            Self::PutOff(since) if is_put_off && since.elapsed() < PATIENCE => self,
            Self::Good | Self::PutOff(_) | Self::Failing => Self::Failing,
        }
    }
}

/// The wait that the server requests in the status of its answer. Kube does not expose the header
/// `Retry-After`; for an answer with the header alone (priority and fairness: seconds) the backoff
/// is enough.
pub(super) fn retry_after(error: &watcher::Error) -> Option<Duration> {
    let seconds = status(error)?.details.as_ref()?.retry_after_seconds;
    Some(Duration::from_secs(seconds.into()).min(RETRY_AFTER_MAX))
}

/// The administrator's next step after a failed watch of pods.
pub(super) fn next_step(error: &watcher::Error) -> &'static str {
    let rights = "allow the daemon's service account to list and watch pods in all namespaces";
    next_step_with(watch_code(error), rights)
}

/// The administrator's next step after an answer with this code, where these rights are needed.
pub(super) fn next_step_with(code: Option<u16>, rights: &'static str) -> &'static str {
    match code {
        Some(401) => "check the token of the daemon's service account",
        Some(403) => rights,
        Some(410) => "none needed: all is listed again",
        Some(429) => "none needed, unless it stays: the API server is overloaded",
        _ => "check that this node reaches the API server",
    }
}

/// The code of the server's answer, if there was one.
pub(super) fn watch_code(error: &watcher::Error) -> Option<u16> {
    status(error).map(|status| status.code)
}

/// The code of the server's answer to a single question, if there was one.
pub(super) fn code(error: &kube::Error) -> Option<u16> {
    match error {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}

/// The innermost cause, which wrappers tend not to print.
pub(super) fn root_cause<'a>(error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause
}

fn status(error: &watcher::Error) -> Option<&Status> {
    match error {
        watcher::Error::WatchError(status)
        | watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status)) => Some(status),
        _ => None,
    }
}
