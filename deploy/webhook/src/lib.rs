//! The mutating admission webhook: gives labeled pods their node's tensor store, as a read-only CSI volume.
//!
//! What is done to a pod is decided in [`inject`], purely. Around it are the review of the API server's requests
//! ([`review`]), the servers ([`http`]), and the certificates, which this component makes and renews itself:
//! [`certificates`] decides and issues, [`sync`] keeps the cluster's objects true.

#![forbid(unsafe_code)]
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

pub mod certificates;
pub mod cli;
pub mod http;
pub mod inject;
pub mod metrics;
pub mod readiness;
pub mod review;
pub mod run;
pub mod sync;
