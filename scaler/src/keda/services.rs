//! The server that `build.rs` makes.

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    missing_docs,
    unused_qualifications,
    reason = "generated"
)]

include!(concat!(
    env!("OUT_DIR"),
    "/externalscaler.ExternalScaler.rs"
));
