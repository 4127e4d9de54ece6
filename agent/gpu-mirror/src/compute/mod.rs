//! A matrix times a vector, where the matrix lies: what benchmarks do first with a model that they wait for.
//!
//! Weights are matrices of bf16 or f32 in mapped device memory, vectors are f32 in a [`Workspace`], sums are f32. With CUDA
//! it is a kernel of our own, in the driver's assembly (`cuda/matvec.ptx`), which the driver compiles; with the stand-in it
//! is plain code. Real models have better kernels: this one is here so that nothing else is needed to use what has arrived.
//!
//! **Guarantees.** Whatever was queued has ended when [`Compute::multiply`] returns, also when it fails: mappings are
//! borrowed until then. Nothing outside the matrices and vectors is read or written.
//!
//! **Caveats.** Sums are in an order of the device's: results of two devices differ by rounding.

pub mod cuda;

mod error;
mod host;
mod matrix;
mod product;
mod workspace;

use crate::memory::DeviceMemory;

pub use error::ComputeError;
pub use host::HostKernels;
pub use matrix::{Element, MAX_SIDE, Matrix, Vector};
pub use product::Product;
pub use workspace::Workspace;

/// A device that multiplies.
pub trait Compute: DeviceMemory {
    /// What was compiled for the device.
    type Kernels: Send + Sync + std::fmt::Debug;

    /// Compiles. That takes some milliseconds, once for a process.
    fn kernels(&self) -> Result<Self::Kernels, ComputeError>;

    /// Makes these products one after the other on `stream`, after what was queued there, and waits for them. `ready` is
    /// called before each one is queued, with its index: it may wait for the weights. Its error ends the call.
    fn multiply<E: From<ComputeError>>(
        &self,
        kernels: &Self::Kernels,
        stream: &mut Self::Stream,
        products: &[Product<'_, Self::Mapping>],
        ready: &mut dyn FnMut(usize) -> Result<(), E>,
    ) -> Result<(), E>;
}
