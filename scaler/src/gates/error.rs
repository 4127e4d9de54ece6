//! Errors of opening gates.

use std::time::Duration;

use thiserror::Error;

use crate::account::refused_account;
use crate::load::chain;
use crate::state::Key;

/// The reason a gate stays closed for now.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum GatesError {
    /// No right to change pods in this namespace.
    #[error(
        "pod {pod}: no right to open its gate; give it: kubectl create rolebinding tetris-gates --clusterrole=tetris-gates-namespace --serviceaccount={account} -n {namespace}",
        namespace = .pod.namespace
    )]
    NoRight {
        /// The pod.
        pod: Key,
        /// Namespace and name of the account without the right.
        account: String,
    },
    /// No answer in time.
    #[error("pod {pod}: no answer from the API server within {} s", limit.as_secs_f64())]
    Timeout {
        /// The pod.
        pod: Key,
        /// Timeout.
        limit: Duration,
    },
    /// A refusal of the API server, or no connection to it.
    #[error("pod {pod}: {}", chain(source))]
    Api {
        /// The pod.
        pod: Key,
        /// Cause.
        source: Box<kube::Error>,
    },
}

impl GatesError {
    /// Converts a failed write.
    pub(super) fn of(pod: Key, source: kube::Error) -> Self {
        match &source {
            kube::Error::Api(status) if status.code == 403 => Self::NoRight {
                account: refused_account(&status.message, "tetris-gates"),
                pod,
            },
            _ => Self::Api {
                pod,
                source: Box::new(source),
            },
        }
    }

    /// Class of the error in the metrics.
    pub const fn class(&self) -> &'static str {
        match self {
            Self::NoRight { .. } => "api_forbidden",
            Self::Timeout { .. } => "api_timeout",
            Self::Api { .. } => "api_failed",
        }
    }
}
