//! The GPU mirror of the node: a server for each open store, over the devices of this machine.
//!
//! The daemon goes on without it where there is no driver; clients find no socket then, and load
//! into host memory.

mod calibrate;
mod check;
mod config;
mod descriptors;
mod devices;
mod links;
mod opening;
pub(crate) mod orders;
mod references;
mod residents;
mod serve;
mod server;
mod status;
mod thread;
mod view;

#[cfg(test)]
mod tests;

pub use config::{GpuMirrorConfig, Implementation, needs_restart};
pub use devices::{Opened, open};
pub use references::GpuMirrorReferences;
pub(crate) use residents::ResidencyMark;
pub use residents::StoreResidents;
pub use serve::GpuMirror;
pub use server::Serves;
pub use status::GpuMirrorStatus;
pub use thread::GpuMirrorThread;
pub use view::GpuMirrorView;
