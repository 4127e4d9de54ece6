//! Problems: the reasons that the gateway answers a request itself.

use std::time::Duration;

use hyper::StatusCode;

/// Longest text of a client that an answer repeats, in bytes.
const SHOWN: usize = 256;

/// The part of a client's text that an answer repeats: the client would double its memory otherwise.
pub(crate) fn shortened(text: &str) -> &str {
    text.get(..text.floor_char_boundary(SHOWN))
        .unwrap_or_default()
}

/// The reason a request is not answered by an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// HTTP status.
    pub status: StatusCode,
    /// Name of the reason, for metrics and the access log.
    pub reason: &'static str,
    /// Message for the client.
    pub message: String,
    /// Time after which the client may try again.
    pub retry_after: Option<Duration>,
}

impl Problem {
    pub(crate) const fn new(status: StatusCode, reason: &'static str, message: String) -> Self {
        Self {
            status,
            reason,
            message,
            retry_after: None,
        }
    }

    pub(crate) const fn unavailable(
        reason: &'static str,
        message: String,
        retry_after: Duration,
    ) -> Self {
        Self {
            status: StatusCode::SERVICE_UNAVAILABLE,
            reason,
            message,
            retry_after: Some(retry_after),
        }
    }

    /// Value of `Retry-After`, in seconds.
    pub(crate) fn retry_seconds(&self) -> Option<u64> {
        let after = self.retry_after?;
        Some(u64::try_from(after.as_millis().div_ceil(1_000).max(1)).unwrap_or(u64::MAX))
    }
}
