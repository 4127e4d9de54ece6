//! The bytes of a tensor in device memory, which may still be on their way.

use std::sync::Arc;

use pyo3::prelude::*;
use tetris_agent::device;
use tetris_store_layout::Dtype;

use crate::device_export;
use crate::dlpack::{self, READ_ONLY, Source};

/// The bytes of a tensor, in one dimension, for who waits for them before they are used.
#[pyclass(frozen, module = "tetris")]
pub(crate) struct DeviceBytes {
    tensor: device::DeviceTensor,
}

impl DeviceBytes {
    pub(crate) fn new(tensor: device::DeviceTensor) -> Self {
        Self { tensor }
    }
}

#[pymethods]
impl DeviceBytes {
    /// Return a capsule over the bytes (array API standard). Does not wait.
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    #[expect(
        unused_variables,
        reason = "no stream is waited for, and it is given as it is"
    )]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<Bound<'py, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let device = device_export::device_of(&self.tensor)?;
        let source = Source {
            address: device_export::address(&self.tensor, device),
            dtype: Dtype::U8,
            shape: &[self.tensor.bytes()],
            device,
            memory: Some(Arc::new(self.tensor.clone())),
        };
        dlpack::capsule_of(py, &source, max_version, READ_ONLY)
    }

    /// Return the device as DLPack names it.
    fn __dlpack_device__(&self) -> PyResult<(i32, i32)> {
        device_export::device_of(&self.tensor)
    }
}
