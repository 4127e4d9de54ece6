//! Products on a device of NVIDIA's.

mod kernels;
mod launch;

use super::{Compute, ComputeError, Product};
use crate::memory::cuda::{CudaStream, IpcDevice, IpcMapping, VmmDevice, VmmMapping};

pub use kernels::CudaKernels;

/// The kernels, in the driver's assembly: compiled for the device at hand when they are loaded, so that no compiler is
/// needed to build, and devices that are newer than this code are fine. Ends with the 0 that the driver wants.
pub const PTX: &str = concat!(include_str!("matvec.ptx"), "\0");

impl Compute for VmmDevice {
    type Kernels = CudaKernels;

    fn kernels(&self) -> Result<CudaKernels, ComputeError> {
        Ok(CudaKernels::load(self.context())?)
    }

    fn multiply<E: From<ComputeError>>(
        &self,
        kernels: &CudaKernels,
        stream: &mut CudaStream,
        products: &[Product<'_, VmmMapping>],
        ready: &mut dyn FnMut(usize) -> Result<(), E>,
    ) -> Result<(), E> {
        launch::all(kernels, stream, products, ready)
    }
}

impl Compute for IpcDevice {
    type Kernels = CudaKernels;

    fn kernels(&self) -> Result<CudaKernels, ComputeError> {
        Ok(CudaKernels::load(self.context())?)
    }

    fn multiply<E: From<ComputeError>>(
        &self,
        kernels: &CudaKernels,
        stream: &mut CudaStream,
        products: &[Product<'_, IpcMapping>],
        ready: &mut dyn FnMut(usize) -> Result<(), E>,
    ) -> Result<(), E> {
        launch::all(kernels, stream, products, ready)
    }
}
