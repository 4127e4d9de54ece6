//! The simulated device: device memory simulated by memfds in host memory.
//!
//! Tests of everything above [`DeviceMemory`](super::DeviceMemory) use it, across processes too. It
//! is deterministic where a real device is undefined: copies run only when a caller waits for them,
//! in small steps, so a consumer that does not wait always reads old bytes.

mod chunk;
mod copies;
mod device;
mod faults;
mod link;
mod queue;

pub use chunk::{HostChunk, HostMapping, HostRange};
pub use copies::{HostEvent, HostStream};
pub use device::{HostDevice, HostPinned, HostRegistration};
pub use faults::Faults;
pub use link::LinkCosts;
pub use queue::HostQueue;
