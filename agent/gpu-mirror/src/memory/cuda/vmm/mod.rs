//! Devices with CUDA's virtual memory: chunks are descriptors, mappings have a protection each.

mod device;
mod parts;

pub use device::VmmDevice;
pub use parts::{VmmChunk, VmmMapping, VmmRange};
