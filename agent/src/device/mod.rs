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
//! The model goes through the store first, where the mirror finds its objects. This process holds
//! its host mappings until every object has arrived on the device, and then drops them. The
//! reclaimer decides about the host copy.
//!
//! **Guarantees.** Memory stays mapped, and held at the mirror, while a [`DeviceModel`] or
//! [`DeviceTensor`] of it lives, and longer if it is kept. A process holds a whole model or nothing
//! of it. Every call ends by its deadline. Before a GPU's memory is unmapped, a dedicated thread waits
//! for the work that this process has queued on the device ([`settle_unmapping`]). While the process
//! captures a CUDA graph, which takes an [`UnmappingPause`], memory stays mapped.
//!
//! A [`Prefetch`] holds a model on a device without mapping it, for a process that schedules loads;
//! [`Registry::describe`] returns the state of a device, and of the models that this process named.
//!
//! **Forks.** CUDA's memory does not survive a fork: in the child every tensor returns
//! [`DeviceError::Forked`]. Dropping a tensor there calls no driver and does not affect the parent.
//! When the parent ends, the mirror releases the model, whatever its children still have. The host
//! device's memory survives, as far as it had arrived before, and the child holds it independently.
//! In both cases a child that loads more creates a [`Registry`].

mod describe;
mod error;
mod held;
mod lease;
mod load;
mod location;
mod model;
mod named;
mod open;
mod options;
mod prefetch;
mod registry;
mod split;
mod status;
mod tensor;
mod watch;

#[cfg(test)]
mod tests;

pub use describe::{DeviceView, ModelView};
pub use error::DeviceError;
pub use location::{Location, Target, TargetError};
pub use model::DeviceModel;
pub use named::NamedModel;
pub use options::{DEFAULT_TIMEOUT, DeviceOptions};
pub use prefetch::{Prefetch, PrefetchOptions, PrefetchState};
pub use registry::Registry;
pub use status::{MirrorDevice, Numbering, SOCKET_ENV, devices, socket, status};
pub use tensor::DeviceTensor;
pub use tetris_gpu_client::{ClientError, UnmappingPause, settle_unmapping};
pub use tetris_gpu_device::StreamHandle;
pub use tetris_gpu_protocol::{DeviceStatus, Kept, ModelState, StatusReport};
