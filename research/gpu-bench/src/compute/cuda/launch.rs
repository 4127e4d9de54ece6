//! Execution of kernels on a stream.
#![expect(unsafe_code, reason = "calls into the driver")]

use std::ffi::c_void;
use std::ptr;

use cudarc::driver::sys;

use super::CudaKernels;
use crate::compute::{ComputeError, Product};
use tetris_gpu_device::cuda::{CudaStream, check};
use tetris_gpu_device::{Mapped, MemoryError};

/// Block size for which the kernels are written: eight warps, one for each row.
const THREADS: u32 = 256;
const ROWS_PER_BLOCK: u32 = 8;

/// A stream that runs kernels. Its drop waits for them on every exit path, because they use memory
/// that the caller only borrows.
struct Busy<'a>(&'a mut CudaStream);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.0.synchronize() {
            // The context is unusable after such an error, and nothing runs in it any more.
            tracing::debug!(%error, "kernels have failed");
        }
    }
}

/// Queues all products and waits for them.
pub(super) fn all<M: Mapped, E: From<ComputeError>>(
    kernels: &CudaKernels,
    stream: &mut CudaStream,
    products: &[Product<'_, M>],
    ready: &mut dyn FnMut(usize) -> Result<(), E>,
) -> Result<(), E> {
    let busy = Busy(stream);
    for (index, product) in products.iter().enumerate() {
        ready(index)?;
        queue(kernels, busy.0, product).map_err(ComputeError::from)?;
    }
    let finished = busy.0.synchronize();
    Ok(finished.map_err(ComputeError::from)?)
}

fn queue<M: Mapped>(
    kernels: &CudaKernels,
    stream: &CudaStream,
    product: &Product<'_, M>,
) -> Result<(), MemoryError> {
    let matrix = &product.matrix;
    let mut addresses = [
        matrix.address(),
        product.input.address(),
        product.output.address(),
    ];
    let mut numbers = [matrix.rows, matrix.columns, u32::from(product.accumulate)];
    let [weights, input, output] = addresses
        .each_mut()
        .map(|address| ptr::from_mut(address).cast());
    let [rows, columns, accumulate] = numbers
        .each_mut()
        .map(|number| ptr::from_mut(number).cast());
    let mut arguments: [*mut c_void; 6] = [weights, input, output, rows, columns, accumulate];
    let blocks = matrix.rows.div_ceil(ROWS_PER_BLOCK);
    let (function, into) = (kernels.choose(product), arguments.as_mut_ptr());
    let (handle, no_more) = (stream.handle(), ptr::null_mut());
    let _current = kernels.context.enter()?;
    // SAFETY: the kernel takes three addresses and three numbers, in this order, which the call
    // reads before it returns. The kernel reads the matrix and the input and writes the output. All
    // three are inside mappings that outlive the kernel: `Busy` waits for it.
    let code = unsafe {
        sys::cuLaunchKernel(
            function, blocks, 1, 1, THREADS, 1, 1, 0, handle, into, no_more,
        )
    };
    check(code as u32, "start a kernel")
}
