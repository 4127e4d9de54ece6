//! The bits of a tensor in device memory, as unsigned integers.

use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use tetris_agent::device;
use tetris_store_layout::Dtype;

use crate::dlpack::Request;
use crate::{device_export, device_wait};

/// The elements of a tensor as unsigned integers of the same size, for consumers that do not have the
/// element type. It keeps the memory.
#[pyclass(frozen, module = "tetris")]
pub(crate) struct DeviceBits {
    tensor: device::DeviceTensor,
    dtype: Dtype,
}

impl DeviceBits {
    /// The bits of a tensor whose elements fill 1, 2, 4 or 8 bytes each.
    pub(crate) fn new(tensor: device::DeviceTensor) -> PyResult<Self> {
        let dtype = match tensor.dtype().bits() {
            8 => Dtype::U8,
            16 => Dtype::U16,
            32 => Dtype::U32,
            64 => Dtype::U64,
            bits => {
                return Err(PyBufferError::new_err(format!(
                    "expected elements of 8, 16, 32 or 64 bits, found {} with {bits}",
                    tensor.dtype()
                )));
            }
        };
        Ok(Self { tensor, dtype })
    }
}

#[pymethods]
impl DeviceBits {
    /// Wait until the bytes have arrived, and return a capsule over them (array API standard).
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<Bound<'py, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let what = format!("tensor {:?}", self.tensor.name());
        device_wait::until(py, None, &what, |limit| self.tensor.wait(limit))?;
        let request = Request {
            stream,
            max_version,
            device: dl_device,
            copy,
            read_only: true,
        };
        device_export::export_as(py, &self.tensor, self.dtype, &request)
    }

    /// Return the device as DLPack names it.
    fn __dlpack_device__(&self) -> PyResult<(i32, i32)> {
        device_export::device_of(&self.tensor)
    }
}
