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
mod lingering;
mod process;
mod propagation;
mod registration;
mod requests;
mod sanity;
mod wire;

#[path = "../shared/settled.rs"]
mod settled;

#[path = "../mount/namespace.rs"]
mod namespace;
