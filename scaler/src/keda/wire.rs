//! Messages and server of KEDA's external scaler: `proto/externalscaler.proto`.

#![allow(
    clippy::all,
    clippy::pedantic,
    clippy::unwrap_used,
    missing_docs,
    unused_qualifications,
    reason = "generated"
)]

tonic::include_proto!("externalscaler");
