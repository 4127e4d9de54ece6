//! The node's daemon: frees tensors that nobody maps, under policy.

#![forbid(unsafe_code)]
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

mod kept;
mod records;
mod tenant;
mod uuid;
mod warmth;

pub mod cli;
pub mod config;
#[cfg(feature = "node")]
pub mod csi;
pub mod daemon;
pub mod engine;
pub mod events;
pub mod http;
pub mod ingest;
#[cfg(feature = "kubernetes")]
pub mod kubernetes;
pub mod metrics;
pub mod mirror;
#[cfg(feature = "node")]
pub mod mount;
pub mod node;
pub mod report;
pub mod scrub;
pub mod socket;
pub mod warm;
