//! Scaler of Tetris: operator, profiler, plans from files and KEDA external scaler.

#![forbid(unsafe_code)]
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

mod account;
pub mod api_client;
pub mod cli;
pub mod deploy;
pub mod gates;
pub mod gateways;
pub mod keda;
pub mod labels;
pub mod lease;
pub mod load;
pub mod metrics;
pub mod nodes;
pub mod operator;
pub mod pages;
pub mod placement;
pub mod plan;
pub mod pod_client;
mod quantity;
pub mod resources;
pub mod run;
mod shown;
pub mod state;
pub mod units;
