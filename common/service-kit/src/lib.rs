//! Common parts of the daemons `tetris-node`, `tetris-scaler`, `tetris-gateway` and `tetris-webhook`.
//!
//! - [`clients`]: numbers of connections, of all clients and of each address
//! - [`command`]: the runtime, errors and exit codes of a command
//! - [`command_help`]: completions for shells, and manual pages
//! - [`logs`]: log format and filter
//! - [`service_manager`]: readiness, status and heartbeats for systemd
//! - [`shutdown`]: signals, and the order to stop
//! - [`http`]: a server with limits, and pages that all daemons have
//! - [`metrics`]: metrics as OpenMetrics text
//! - [`freed_pages`]: pages that the allocator gives back to the system
//! - [`budget`]: bytes that clients share fairly
//! - [`pace`]: the least rate of a peer, and the time that it may be behind
//! - `bound_tls` (feature `bound-tls`): TLS with tokens that are good for one server alone
//! - `unix_http` (feature `unix-http`): HTTP over Unix sockets, between processes of one daemon
//! - `grpc` (feature `grpc`): connections of gRPC servers within limits
//! - `token_reviews` (feature `token-reviews`): tokens that the API server decides about
//! - `traces` (feature `traces`): spans of a process, sent to an OpenTelemetry collector

#![forbid(unsafe_code)]
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]
#![cfg_attr(
    test,
    allow(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic
    )
)]

#[cfg(feature = "bound-tls")]
pub mod bound_tls;
pub mod budget;
pub mod clients;
pub mod command;
pub mod command_help;
pub mod freed_pages;
#[cfg(feature = "grpc")]
pub mod grpc;
pub mod http;
pub mod logs;
pub mod metrics;
pub mod pace;
pub mod service_manager;
pub mod shutdown;
#[cfg(feature = "token-reviews")]
pub mod token_reviews;
#[cfg(feature = "traces")]
pub mod traces;
#[cfg(feature = "unix-http")]
pub mod unix_http;
