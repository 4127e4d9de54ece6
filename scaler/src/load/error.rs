//! Why a load is not known.

use std::path::PathBuf;

use tetris_tls_roots::RootsError;
use thiserror::Error;

/// Why a load is not known.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The operator was given no server.
    #[error(
        "no Prometheus server is known; start the operator with --prometheus-url, or give a static load"
    )]
    NoServer,
    /// The function is new.
    #[error("it has not been asked for yet")]
    NotAsked,
    /// The server could not be asked.
    #[error("Prometheus: {problem}; check --prometheus-url, --prometheus-ca and the network")]
    Unreachable {
        /// What went wrong.
        problem: String,
    },
    /// The server refused the query.
    #[error("Prometheus refused the query with HTTP {status}: {problem}")]
    Refused {
        /// HTTP status.
        status: u16,
        /// What the server says.
        problem: String,
    },
    /// The answer is not one of the query API.
    #[error("Prometheus: the answer cannot be read: {problem}")]
    Malformed {
        /// What is wrong.
        problem: String,
    },
    /// The answer has no samples.
    #[error(
        "the query has no result; check that its metrics exist, or give zero by `or vector(0)`"
    )]
    Empty,
    /// The answer has a sample that is no load.
    #[error("the query gives {value:?}, expected requests per second from 0 to 1e9")]
    NotALoad {
        /// The sample.
        value: String,
    },
    /// The answer is of another kind.
    #[error("the query gives a {kind}, expected an instant vector or a scalar")]
    Kind {
        /// The kind that Prometheus names.
        kind: String,
    },
}

impl LoadError {
    /// For the metrics.
    pub const fn class(&self) -> &'static str {
        match self {
            Self::NoServer => "load_no_server",
            Self::NotAsked => "load_not_asked",
            Self::Unreachable { .. } => "load_unreachable",
            Self::Refused { .. } => "load_refused",
            Self::Malformed { .. } => "load_malformed",
            Self::Empty => "load_empty",
            Self::NotALoad { .. } => "load_not_a_load",
            Self::Kind { .. } => "load_kind",
        }
    }

    /// For the condition's reason.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::NoServer => "NoServer",
            Self::NotAsked => "NotAskedYet",
            Self::Unreachable { .. } => "Unreachable",
            Self::Refused { .. } => "QueryRefused",
            Self::Malformed { .. } => "AnswerMalformed",
            Self::Empty => "NoResult",
            Self::NotALoad { .. } => "NotALoad",
            Self::Kind { .. } => "WrongKind",
        }
    }
}

/// A server cannot be asked with what was given.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PrometheusError {
    /// The address is not one.
    #[error(
        "--prometheus-url {url:?}: {problem}; expected an address such as http://prometheus:9090"
    )]
    Url {
        /// What was given.
        url: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A file cannot be read.
    #[error("{flag} {}: {problem}", path.display())]
    File {
        /// The flag that names it.
        flag: &'static str,
        /// Its path.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// No certificates to know the server by.
    #[error("Prometheus: {0}")]
    Roots(#[from] RootsError),
    /// The client cannot be made.
    #[error("a client for Prometheus: {0}")]
    Client(#[from] reqwest::Error),
}
