//! Refusals: the reasons a request gets no instance.

use std::time::Duration;

use tetris_scaler_dispatch::Rejection;
use tetris_scaler_dispatch::engines::EngineRejection;
use thiserror::Error;

/// Time after which a client may try again where no instance suggests another.
const RETRY: Duration = Duration::from_secs(1);

/// The reason a request got no instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The queue is full, or the wait would be too long.
    #[error("{0}")]
    Rejected(Rejection),
    /// The request waited for as long as it may.
    #[error("no instance had room in time; {instances} take requests")]
    Expired {
        /// Number of instances that take requests.
        instances: usize,
    },
    /// No instance is one of those that the request may go to.
    #[error("none of the instances that the request may go to is known")]
    NotEligible,
    /// The function has no its own instances.
    #[error(
        "a pool of GPUs, or an engine that sleeps, serves it: send requests to the gateway's own address"
    )]
    ProxyOnly,
    /// The engine cannot have the request.
    #[error("{0}")]
    Engine(EngineRejection),
    /// The engine was not awake in time.
    #[error("its engine was not awake in time; see /engines for the states of its group")]
    NotAwake,
    /// No executor has the model of the function.
    #[error("none of the pool's {executors} executors that answer serves its model")]
    Unserved {
        /// Number of executors that answer.
        executors: usize,
    },
    /// The model of the function fits on no GPU.
    #[error(
        "its model has {bytes} bytes, expected {largest} at most, the memory of the largest GPU"
    )]
    TooLarge {
        /// Number of bytes of the model.
        bytes: u64,
        /// Memory of the largest GPU, in bytes.
        largest: u64,
    },
}

impl Refusal {
    /// Time after which the client may try again.
    pub fn retry_after(&self) -> Duration {
        match self {
            Self::Rejected(rejection) => Duration::from_micros(rejection.retry_us()).max(RETRY),
            Self::Engine(EngineRejection::WakeFailed { retry_us }) => {
                Duration::from_micros(*retry_us).max(RETRY)
            }
            Self::Expired { .. }
            | Self::Engine(_)
            | Self::NotAwake
            | Self::NotEligible
            | Self::ProxyOnly
            | Self::Unserved { .. }
            | Self::TooLarge { .. } => RETRY,
        }
    }

    /// True if the client sent too much, and false if there is too little to serve it.
    pub const fn is_too_many(&self) -> bool {
        matches!(
            self,
            Self::Rejected(Rejection::Full { .. }) | Self::Engine(EngineRejection::Full { .. })
        )
    }

    /// Name of the reason, for metrics.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Rejected(Rejection::Full { .. }) => "full",
            Self::Rejected(_) => "too-late",
            Self::Engine(rejection) => of_engine(rejection),
            Self::NotAwake => "not-awake",
            Self::Expired { .. } => "expired",
            Self::NotEligible => "not-eligible",
            Self::ProxyOnly => "proxy-only",
            Self::Unserved { .. } => "unserved",
            Self::TooLarge { .. } => "too-large",
        }
    }
}

const fn of_engine(rejection: &EngineRejection) -> &'static str {
    match rejection {
        EngineRejection::Full { .. } => "full",
        EngineRejection::NoPaths => "no-sleep-paths",
        EngineRejection::WakeFailed { .. } => "wake-failed",
        EngineRejection::NoRoom => "no-room",
        _ => "unreachable",
    }
}
