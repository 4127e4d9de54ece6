//! Errors of requests for a lease.

use std::time::Duration;

use thiserror::Error;

/// The reason a request for a lease failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LeaseError {
    /// A refusal of the API server, or no connection to it.
    #[error(
        "lease {lease}: {source}; check the address of the API server and the rights on leases"
    )]
    Api {
        /// Namespace and name of the lease.
        lease: String,
        /// Cause.
        source: Box<kube::Error>,
    },
    /// There is no lease.
    #[error(
        "lease {lease} does not exist, so no replica can lead; apply the scaler's manifests, which have it, or name another by --lease and --namespace"
    )]
    Missing {
        /// Namespace and name of the lease.
        lease: String,
    },
    /// No answer in time.
    #[error("lease {lease}: no answer within {} s", limit.as_secs_f64())]
    Timeout {
        /// Namespace and name of the lease.
        lease: String,
        /// Timeout.
        limit: Duration,
    },
    /// A duration out of range.
    #[error("lease: a duration of {found} s, expected 3 to 3600 s")]
    Duration {
        /// The duration given, in seconds.
        found: u64,
    },
}
