//! Why a lease could not be asked for.

use std::time::Duration;

use thiserror::Error;

/// Why a lease could not be asked for.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LeaseError {
    /// The API server refused or could not be reached.
    #[error(
        "lease {lease}: {source}; check the address of the API server and the rights on leases"
    )]
    Api {
        /// Namespace and name.
        lease: String,
        /// What the client says.
        source: Box<kube::Error>,
    },
    /// The API server took too long.
    #[error("lease {lease}: no answer within {} s", limit.as_secs_f64())]
    Timeout {
        /// Namespace and name.
        lease: String,
        /// How long was waited.
        limit: Duration,
    },
    /// Durations that make no sense.
    #[error("lease: a duration of {found} s, expected 3 to 3600 s")]
    Duration {
        /// What was given, in seconds.
        found: u64,
    },
}
