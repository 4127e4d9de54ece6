//! The CSI driver over its real sockets, with real mounts.

#![cfg(all(feature = "node", feature = "kubernetes"))]

#[path = "../shared/api.rs"]
mod api;
mod authority;
mod calls;
mod choosing;
mod fixture;
mod gone;
mod kubelet;
mod process;
mod propagation;
mod registration;
mod requests;
mod sanity;
mod wire;

#[path = "../mount/namespace.rs"]
mod namespace;
