//! Models in device memory, from the node's GPU mirror.
//!
//! ```no_run
//! # use std::time::Duration;
//! # use tetris_agent::{Agent, device::{DeviceOptions, Registry, Target}};
//! # fn example(agent: &Agent) -> Result<(), Box<dyn std::error::Error>> {
//! let registry = Registry::default();
//! let options = DeviceOptions::new(Target::Cuda(0));
//! let model = registry.load(agent, "model.safetensors", &options)?;
//! for tensor in model.tensors() {
//!     if tensor.wait(Duration::from_secs(60))? {
//!         println!("{} at {:#x}", tensor.name(), tensor.address());
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A model goes through the store first, so that the mirror finds its objects there. The host mappings of this process are held until
//! everything has arrived on the device, and dropped then: whether the host copy stays is up to the reclaimer.
//!
//! **Guarantees.** Memory stays mapped, and held at the mirror, while a [`DeviceModel`] or [`DeviceTensor`] of it lives, and longer if it
//! is kept. All of a model is held or nothing. Every call ends by its deadline. Before memory is unmapped, what this process has queued on
//! the device is waited for.
//!
//! **Forks.** CUDA's memory does not survive a fork: in the child every tensor says so ([`DeviceError::Forked`]), and letting go of
//! one calls no driver and takes nothing from the parent. The parent's end takes the model from the mirror whatever children have. The
//! stand-in's memory survives, as far as it had arrived before; a child holds it on its own. In both cases a child
//! that wants more makes its own [`Registry`].

mod error;
mod held;
mod lease;
mod load;
mod location;
mod model;
mod open;
mod options;
mod registry;
mod split;
mod status;
mod tensor;
mod watch;

#[cfg(test)]
mod tests;

pub use error::DeviceError;
pub use location::{Location, Target, TargetError};
pub use model::DeviceModel;
pub use options::{DEFAULT_TIMEOUT, DeviceOptions};
pub use registry::Registry;
pub use status::{MirrorDevice, SOCKET_ENV, devices, socket, status};
pub use tensor::DeviceTensor;
pub use tetris_gpu_mirror::protocol::{DeviceStatus, StatusReport};
