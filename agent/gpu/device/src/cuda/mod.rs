//! Devices of NVIDIA's driver, which is loaded on first use. The build needs nothing of CUDA.
//!
//! [`VmmDevice`] is the default: descriptors cross process and namespace borders, and each mapping
//! has its own protection. [`IpcDevice`] is for devices without that. [`device_count`] returns the
//! number of devices, or one error with the reason there are none.
//!
//! Every call pushes the device's primary context, the one that the CUDA runtime and PyTorch use,
//! and pops it again, so the calling thread keeps its own context. In a forked child, and after the
//! driver's shutdown at process exit, calls only return an error. A value dropped then frees
//! nothing: its resource belongs to the parent, or the driver frees it. An invalid memory access by
//! any library's kernel ends the process's use of the device: every later call returns that error.
//!
//! The library calls the driver through a separate table (`driver`). The bindings panic if a
//! symbol is missing, and declare results as an enumeration, in which a newer driver's result has
//! no valid value.

mod consumer;
mod context;
mod copies;
mod driver;
mod host_memory;
mod identity;
mod ipc;
mod result;
mod shared;
mod vmm;

pub use context::{CudaContext, Current, device_count};
pub use copies::{CudaEvent, CudaStream};
pub use host_memory::{CudaPinned, CudaRegistration};
pub use identity::{device_number, device_uuid, is_initialized};
pub use ipc::{IpcChunk, IpcDevice, IpcMapping, IpcRange};
pub use result::check;
pub use vmm::{VmmChunk, VmmDevice, VmmMapping, VmmRange};
