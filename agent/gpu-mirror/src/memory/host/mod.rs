//! The stand-in for a device: the same protocol over memfds, in host memory.
//!
//! Everything above [`DeviceMemory`](super::DeviceMemory) is tested with it, over process borders as well. It is strict where a
//! device is merely undefined: copies happen when somebody waits for them and not before, in small steps,
//! so a consumer that does not wait reads old bytes every time.

mod chunk;
mod copies;
mod device;
mod faults;

pub use chunk::{HostChunk, HostMapping, HostRange};
pub use copies::{HostEvent, HostStream};
pub use device::{HostDevice, HostPinned, HostRegistration};
pub use faults::Faults;
