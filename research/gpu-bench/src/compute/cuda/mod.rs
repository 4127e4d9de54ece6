//! Products on an NVIDIA device.

mod kernels;
mod launch;

use super::{Compute, ComputeError, Product};
use tetris_gpu_device::cuda::{CudaStream, IpcDevice, IpcMapping, VmmDevice, VmmMapping};

pub use kernels::CudaKernels;

/// The kernels in PTX, with the terminating NUL that the driver expects. The driver compiles them
/// for its device when it loads them, so the build needs no compiler, and newer devices work too.
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
