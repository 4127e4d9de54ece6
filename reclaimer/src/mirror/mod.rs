//! The GPU mirror of the node: a server for each store that is open, over the devices of this machine.
//!
//! The daemon goes on without it where there is no driver; clients find no socket then, and load into host memory.

mod config;
mod devices;
mod serve;

#[cfg(test)]
mod tests;

pub use config::{GpuMirrorConfig, Implementation};
pub use devices::open;
pub use serve::{Mirror, Serves};
