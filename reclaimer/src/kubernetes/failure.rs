//! What is wrong when the API server cannot be watched, and when to try again.

use std::error::Error;
use std::time::Duration;

use kube::core::Status;
use kube::runtime::watcher;
use tokio::time::Instant;

/// The longest wait that a server may ask for. One that asks for more is asked again all the same.
const RETRY_AFTER_MAX: Duration = Duration::from_mins(5);

/// How long a server may put requests off before that is worth a warning.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// How the watch is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Health {
    /// It works, or was not tried yet.
    Good,
    /// The server puts requests off, from this moment on.
    PutOff(Instant),
    /// It fails, and that was reported.
    Failing,
}

impl Health {
    /// How it is doing after `error`. A server that starts, or has a new kind of resource, puts requests off until its
    /// storage is initialized: nothing is wrong unless that lasts.
    pub(super) fn after(self, error: &watcher::Error) -> Self {
        let is_put_off = status(error).is_some_and(|status| status.code == 429);
        match self {
            Self::Good if is_put_off => Self::PutOff(Instant::now()),
            Self::PutOff(since) if is_put_off && since.elapsed() < PATIENCE => self,
            Self::Good | Self::PutOff(_) | Self::Failing => Self::Failing,
        }
    }
}

/// What the server asks for before the next request, where the status in its answer says it. Kube does not hand out the
/// header `Retry-After`; an answer that has it alone (of priority and fairness: seconds) is met by the backoff.
pub(super) fn retry_after(error: &watcher::Error) -> Option<Duration> {
    let seconds = status(error)?.details.as_ref()?.retry_after_seconds;
    Some(Duration::from_secs(seconds.into()).min(RETRY_AFTER_MAX))
}

/// What an administrator can do about a watch of pods that fails.
pub(super) fn next_step(error: &watcher::Error) -> &'static str {
    let rights = "allow the daemon's service account to list and watch pods in all namespaces";
    next_step_with(watch_code(error), rights)
}

/// What an administrator can do about an answer with this code, where these rights are needed.
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
#[cfg(feature = "node")]
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
