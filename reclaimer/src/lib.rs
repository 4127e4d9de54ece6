//! The node daemon: frees unmapped tensors by policy, publishes files for pods, and serves devices.

#![forbid(unsafe_code)]
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

mod own_usage;
mod priority;
mod record_memory;
mod records;
mod uuid;

pub mod cli;
pub mod cold;
pub mod config;
pub mod csi;
pub mod daemon;
pub mod engine;
pub mod events;
pub mod field_error;
pub mod gpu_mirror;
pub mod http;
pub mod ingest;
pub mod keep_warm;
pub mod kubernetes;
pub mod metrics;
pub mod models;
pub mod mount;
pub mod process;
pub mod processes;
pub mod report;
pub mod room;
pub mod scrub;
pub mod socket;
pub mod store;
