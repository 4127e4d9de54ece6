//! The CSI driver over its real sockets, with real mounts.

#![cfg(feature = "node")]

mod calls;
mod choosing;
mod fixture;
mod process;
mod propagation;
mod registration;
mod requests;
mod wire;

#[path = "../mount/namespace.rs"]
mod namespace;
