//! The node's daemon: frees tensors that nobody maps, under policy.

#![forbid(unsafe_code)]
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

pub mod http;
pub mod logs;
pub mod metrics;
pub mod report;
pub mod scrub;
pub mod socket;
pub mod warm;
