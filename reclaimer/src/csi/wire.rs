//! Messages and servers of the services that the kubelet calls: `proto/`.

#![allow(
    clippy::all,
    clippy::pedantic,
    clippy::unwrap_used,
    missing_docs,
    unused_qualifications,
    reason = "generated"
)]

tonic::include_proto!("csi.v1");
tonic::include_proto!("pluginregistration");

pub use volume_capability::AccessType;
