//! The CSI driver over its real sockets, with real mounts.

mod authority;
pub mod calls;
mod choosing;
pub mod fixture;
mod gone;
mod idmap;
mod kubelet;
mod links;
mod models;
mod propagation;
mod python;
mod registration;
mod requests;
mod sanity;
mod wire;
