//! The CSI driver over its real sockets, with real mounts.

mod authority;
mod calls;
mod choosing;
mod fixture;
mod gone;
mod idmap;
mod kubelet;
mod lingering;
mod process;
mod propagation;
mod registration;
mod requests;
mod sanity;
mod shares;
mod wire;
