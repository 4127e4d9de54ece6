//! The servers that `build.rs` makes.

#![allow(
    clippy::pedantic,
    clippy::unwrap_used,
    unused_qualifications,
    reason = "generated"
)]

include!(concat!(env!("OUT_DIR"), "/csi.v1.Identity.rs"));
include!(concat!(env!("OUT_DIR"), "/csi.v1.Node.rs"));
include!(concat!(
    env!("OUT_DIR"),
    "/pluginregistration.Registration.rs"
));
