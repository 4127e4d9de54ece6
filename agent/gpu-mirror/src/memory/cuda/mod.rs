//! Devices behind NVIDIA's driver, which is loaded when it is first asked for. Nothing of CUDA is needed to build.
//!
//! [`VmmDevice`] is the one to use: descriptors cross process and namespace borders, and each mapping has its own protection.
//! [`IpcDevice`] is for what cannot do that. [`device_count`] says how many there are, or says in one error why nothing is.
//!
//! Every call pushes the device's primary context, the one that the runtime and torch use, and pops it again, so that
//! the calling thread finds its own as before. In a child that was forked, and when the driver has ended with its process, calls only
//! return an error: what is dropped then stays as it is, for the parent, or for the driver to give back. An access to memory that is
//! not there, by a kernel of whatever library, ends the use of the device by its process: every later call returns that error.
//!
//! The driver is called through a table of our own
//! (`driver`), because the bindings panic where a symbol is missing, and declare results as an enumeration, which
//! a newer driver's result would be no value of.

mod context;
mod copies;
mod driver;
mod host_memory;
mod ipc;
mod result;
mod vmm;

pub use context::{CudaContext, device_count};
pub use copies::{CudaEvent, CudaStream};
pub use host_memory::{CudaPinned, CudaRegistration};
pub use ipc::{IpcChunk, IpcDevice, IpcMapping, IpcRange};
pub(crate) use result::{check, note};
pub use vmm::{VmmChunk, VmmDevice, VmmMapping, VmmRange};
