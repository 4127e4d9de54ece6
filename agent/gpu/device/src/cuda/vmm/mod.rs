//! Devices with CUDA's virtual memory: chunks are descriptors, and each mapping has its own
//! protection.

mod device;
mod parts;

pub use device::VmmDevice;
pub use parts::{VmmChunk, VmmMapping, VmmRange};
