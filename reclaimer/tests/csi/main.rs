//! The CSI driver over its real sockets, with real mounts.

#![cfg(feature = "node")]

mod authority;
mod calls;
mod choosing;
mod fixture;
mod kubelet;
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
