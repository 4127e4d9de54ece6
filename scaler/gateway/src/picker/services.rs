//! The servers that `build.rs` generates.

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    missing_docs,
    unused_qualifications,
    reason = "generated"
)]

include!(concat!(
    env!("OUT_DIR"),
    "/envoy.service.ext_proc.v3.ExternalProcessor.rs"
));
include!(concat!(env!("OUT_DIR"), "/grpc.health.v1.Health.rs"));
