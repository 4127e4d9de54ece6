//! The server that `build.rs` generates.

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    missing_docs,
    unused_qualifications,
    reason = "generated"
)]

include!(concat!(env!("OUT_DIR"), "/grpc.health.v1.Health.rs"));
