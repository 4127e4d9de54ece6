//! Errors of reading a load.

use std::path::PathBuf;

use tetris_tls_roots::RootsError;
use thiserror::Error;

/// The reason a load is unknown.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LoadError {
    /// No configured server.
    #[error(
        "no Prometheus server is configured; start the operator with --prometheus-url, or give a static load"
    )]
    NoServer,
    /// A new function, before its first query.
    #[error("not queried yet")]
    NotAsked,
    /// No connection to the server, or no answer in time.
    #[error("Prometheus: {problem}; check --prometheus-url, --prometheus-ca and the network")]
    Unreachable {
        /// Cause.
        problem: String,
    },
    /// A refusal of the query.
    #[error("Prometheus refused the query with HTTP {status}: {problem}")]
    Refused {
        /// HTTP status.
        status: u16,
        /// Error message of the server.
        problem: String,
    },
    /// An answer that does not follow the query API.
    #[error("Prometheus: cannot parse the answer: {problem}")]
    Malformed {
        /// Cause.
        problem: String,
    },
    /// An answer without samples.
    #[error(
        "the query has no result; check that its metrics exist, or give zero with `or vector(0)`"
    )]
    Empty,
    /// A sample that is not a load.
    #[error("the query gives {value:?}, expected requests per second from 0 to 1e9")]
    NotALoad {
        /// Value of the sample.
        value: String,
    },
    /// A sample that is not a latency.
    #[error("the query gives {value:?}, expected seconds from 0 to 86400")]
    NotALatency {
        /// Value of the sample.
        value: String,
    },
    /// An answer of the wrong type.
    #[error("the query gives a {kind}, expected an instant vector or a scalar")]
    Kind {
        /// Result type of the answer.
        kind: String,
    },
    /// No ready gateway.
    #[error(
        "no gateway is ready in the operator's --gateway-namespace; install deploy/base/gateway, or see why its pods are not ready"
    )]
    NoGateway,
    /// A ready gateway that has not answered for a time.
    #[error("{problem}; its last answer is too old")]
    GatewaySilent {
        /// The gateway, and the reason.
        problem: String,
    },
    /// A function that no gateway knows.
    #[error(
        "no gateway lists the function; see in the log of the gateways why they do not know it"
    )]
    NotListed,
    /// A latency without requests.
    #[error("no request was served within the last minute")]
    NoRequests,
}

impl LoadError {
    /// Class of the error in the metrics.
    pub const fn class(&self) -> &'static str {
        match self {
            Self::NoServer => "load_no_server",
            Self::NotAsked => "load_not_asked",
            Self::Unreachable { .. } => "load_unreachable",
            Self::Refused { .. } => "load_refused",
            Self::Malformed { .. } => "load_malformed",
            Self::Empty => "load_empty",
            Self::NotALoad { .. } => "load_not_a_load",
            Self::NotALatency { .. } => "load_not_a_latency",
            Self::Kind { .. } => "load_kind",
            Self::NoGateway => "load_no_gateway",
            Self::GatewaySilent { .. } => "load_gateway_silent",
            Self::NotListed => "load_not_listed",
            Self::NoRequests => "load_no_requests",
        }
    }

    /// Reason for the condition.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::NoServer => "NoServer",
            Self::NotAsked => "NotAskedYet",
            Self::Unreachable { .. } => "Unreachable",
            Self::Refused { .. } => "QueryRefused",
            Self::Malformed { .. } => "AnswerMalformed",
            Self::Empty => "NoResult",
            Self::NotALoad { .. } => "NotALoad",
            Self::NotALatency { .. } => "NotALatency",
            Self::Kind { .. } => "WrongKind",
            Self::NoGateway => "NoGateway",
            Self::GatewaySilent { .. } => "GatewaySilent",
            Self::NotListed => "NotListed",
            Self::NoRequests => "NoRequests",
        }
    }
}

/// The reason a client of the server could not be created.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PrometheusError {
    /// An invalid address.
    #[error(
        "--prometheus-url {url:?}: {problem}; expected an address such as http://prometheus:9090"
    )]
    Url {
        /// The address given.
        url: String,
        /// Cause.
        problem: String,
    },
    /// A file that cannot be read.
    #[error("{flag} {}: {problem}", path.display())]
    File {
        /// Name of the flag.
        flag: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        problem: String,
    },
    /// No certificates to check the server by.
    #[error("Prometheus: {0}")]
    Roots(#[from] RootsError),
    /// A failure to create the client.
    #[error("cannot create a client for Prometheus: {0}")]
    Client(#[from] reqwest::Error),
}
