//! A matrix times a vector, computed on the matrix's device: the first work of benchmarks on a
//! newly loaded model.
//!
//! Weights are matrices of bf16 or f32 in mapped device memory, vectors are f32 in a [`Workspace`],
//! sums are f32. With CUDA the product runs as a kernel of our own in PTX (`cuda/matvec.ptx`),
//! which the driver compiles; on the simulated device it runs as plain code. Real models have
//! faster kernels. This one lets benchmarks use weights without further dependencies.
//!
//! **Guarantees.** When [`Compute::multiply`] returns, also with an error, all queued work has
//! ended: it borrows the mappings until then. A product accesses only its matrix and its vectors.
//!
//! **Caveats.** The device chooses the order of summation: results of two devices differ by
//! rounding.

pub mod cuda;

mod error;
mod host;
mod matrix;
mod product;
mod workspace;

use tetris_gpu_device::DeviceMemory;

pub use error::ComputeError;
pub use host::HostKernels;
pub use matrix::{Element, MAX_SIDE, Matrix, Vector};
pub use product::Product;
pub use workspace::Workspace;

/// A device that computes products.
pub trait Compute: DeviceMemory {
    /// Kernels compiled for the device.
    type Kernels: Send + Sync + std::fmt::Debug;

    /// Compiles the kernels. That takes some milliseconds, once per process.
    fn kernels(&self) -> Result<Self::Kernels, ComputeError>;

    /// Runs `products` one after the other on `stream`, after the work queued there, and waits for
    /// them. Calls `ready` with the index of each product before it is queued; `ready` may wait for
    /// the weights.
    ///
    /// # Errors
    ///
    /// The first error of `ready`, or [`ComputeError`] if a product fails.
    fn multiply<E: From<ComputeError>>(
        &self,
        kernels: &Self::Kernels,
        stream: &mut Self::Stream,
        products: &[Product<'_, Self::Mapping>],
        ready: &mut dyn FnMut(usize) -> Result<(), E>,
    ) -> Result<(), E>;
}
