//! Rejections of new requests.

use thiserror::Error;

/// The reason a request is not queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Rejection {
    /// The queue is full.
    #[error("{waiting} requests wait, expected fewer; try again in {retry_us} us")]
    Full {
        /// Number of waiting requests.
        waiting: usize,
        /// Estimated time until half of the queue is served, in microseconds.
        retry_us: u64,
    },
    /// The request would wait for longer than it may, or miss its deadline.
    #[error(
        "the result would take {estimate_us} us, expected {allowed_us} at most; try again in {retry_us} us"
    )]
    TooLate {
        /// Estimated time until the result, in microseconds.
        estimate_us: u64,
        /// Time that the request has, in microseconds.
        allowed_us: u64,
        /// Estimated time until the same request would be in time, in microseconds.
        retry_us: u64,
    },
    /// A request with this number waits or is dispatched.
    #[error("the request is already known; give each request a number of its own")]
    Known,
}

impl Rejection {
    /// Time after which the client may try again, in microseconds.
    pub const fn retry_us(&self) -> u64 {
        match self {
            Self::Full { retry_us, .. } | Self::TooLate { retry_us, .. } => *retry_us,
            Self::Known => 0,
        }
    }
}
