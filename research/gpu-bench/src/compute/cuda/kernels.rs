//! Kernels compiled by the driver.
#![expect(unsafe_code, reason = "calls into the driver")]

use std::ffi::CStr;
use std::ptr;
use std::sync::Arc;

use cudarc::driver::sys;

use super::PTX;
use crate::compute::{Element, Product};
use tetris_gpu_device::cuda::{CudaContext, check};
use tetris_gpu_device::{Mapped, MemoryError};

/// Number of bytes that the wide kernels read at a time.
const WIDE_BYTES: u64 = 16;

/// The kernels of one device.
#[derive(Debug)]
pub struct CudaKernels {
    pub(super) context: Arc<CudaContext>,
    /// Owns the code of the functions below.
    _module: Module,
    f32: sys::CUfunction,
    f32_wide: sys::CUfunction,
    bf16: sys::CUfunction,
    bf16_wide: sys::CUfunction,
}

// SAFETY: a function is a handle that any thread may use in the module's context; the driver does
// its own locking.
unsafe impl Send for CudaKernels {}
// SAFETY: as above.
unsafe impl Sync for CudaKernels {}

/// A loaded module, unloaded on drop.
#[derive(Debug)]
struct Module {
    context: Arc<CudaContext>,
    handle: sys::CUmodule,
}

impl Module {
    fn load(context: &Arc<CudaContext>) -> Result<Self, MemoryError> {
        let _current = context.enter()?;
        let mut handle = ptr::null_mut();
        // SAFETY: `handle` may be written, a context is current, and the text ends with 0. Unloaded
        // on drop.
        let code = unsafe { sys::cuModuleLoadData(&raw mut handle, PTX.as_ptr().cast()) };
        check(code as u32, "compile the kernels")?;
        Ok(Self {
            context: Arc::clone(context),
            handle,
        })
    }

    fn function(&self, name: &CStr) -> Result<sys::CUfunction, MemoryError> {
        let _current = self.context.enter()?;
        let mut function = ptr::null_mut();
        // SAFETY: `function` may be written, the module is loaded, and the name ends with 0.
        let code =
            unsafe { sys::cuModuleGetFunction(&raw mut function, self.handle, name.as_ptr()) };
        check(code as u32, "find a kernel")?;
        Ok(function)
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        if let Ok(_current) = self.context.enter() {
            // SAFETY: loaded by `load`, unloaded once, here. No kernel runs: `launch::all` waits
            // for the kernels it starts.
            let code = unsafe { sys::cuModuleUnload(self.handle) };
            if let Err(error) = check(code as u32, "unload the kernels") {
                tracing::debug!(%error, "kernels stay loaded");
            }
        }
    }
}

impl CudaKernels {
    pub(super) fn load(context: &Arc<CudaContext>) -> Result<Self, MemoryError> {
        let module = Module::load(context)?;
        Ok(Self {
            context: Arc::clone(context),
            f32: module.function(c"tetris_matvec_f32")?,
            f32_wide: module.function(c"tetris_matvec_f32x4")?,
            bf16: module.function(c"tetris_matvec_bf16")?,
            bf16_wide: module.function(c"tetris_matvec_bf16x8")?,
            _module: module,
        })
    }

    /// Returns the fastest kernel for this product.
    pub(super) fn choose<M: Mapped>(&self, product: &Product<'_, M>) -> sys::CUfunction {
        let wide = is_wide(product);
        match (product.matrix.element, wide) {
            (Element::F32, false) => self.f32,
            (Element::F32, true) => self.f32_wide,
            (Element::Bf16, false) => self.bf16,
            (Element::Bf16, true) => self.bf16_wide,
        }
    }
}

/// Returns true if kernels can read the rows and the input 16 bytes at a time.
fn is_wide<M: Mapped>(product: &Product<'_, M>) -> bool {
    let matrix = &product.matrix;
    let row_bytes = u64::from(matrix.columns) * matrix.element.bytes();
    let addresses = [matrix.address(), product.input.address(), row_bytes];
    addresses
        .iter()
        .all(|address| address.is_multiple_of(WIDE_BYTES))
}
