//! A tensor in device memory.

use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use tetris_agent::device;

use crate::device_bits::DeviceBits;
use crate::dlpack::Request;
use crate::{device_export, device_wait, errors};

/// A tensor in device memory. It keeps its model there.
#[pyclass(frozen, weakref, module = "tetris")]
pub(crate) struct DeviceTensor {
    tensor: device::DeviceTensor,
}

impl DeviceTensor {
    pub(crate) fn new(tensor: device::DeviceTensor) -> Self {
        Self { tensor }
    }

    fn arrived(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let what = format!("tensor {:?}", self.tensor.name());
        device_wait::until(py, timeout, &what, |limit| self.tensor.wait(limit))
    }
}

#[pymethods]
impl DeviceTensor {
    /// The tensor's name.
    #[getter]
    fn name(&self) -> &str {
        self.tensor.name()
    }

    /// The element type as safetensors spells it, such as "BF16".
    #[getter]
    fn dtype(&self) -> &'static str {
        self.tensor.dtype().name()
    }

    /// Dimensions, outermost first.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.tensor.shape())
    }

    /// Length in bytes.
    #[getter]
    fn nbytes(&self) -> u64 {
        self.tensor.bytes()
    }

    /// BLAKE3-256 of the bytes.
    #[getter]
    fn id(&self) -> Option<String> {
        Some(self.tensor.id()?.to_string())
    }

    /// The address of the first byte on the device; 0 for a tensor without bytes.
    #[getter]
    fn address(&self) -> u64 {
        self.tensor.address()
    }

    /// The device: "cuda:0", or "simulated".
    #[getter]
    fn device(&self) -> String {
        self.tensor.location().to_string()
    }

    /// Wait until the bytes have arrived.
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        self.arrived(py, timeout)
    }

    /// Return whether the bytes have arrived.
    fn is_ready(&self, py: Python<'_>) -> PyResult<bool> {
        py.detach(|| self.tensor.wait(Duration::ZERO))
            .map_err(errors::device)
    }

    /// Wait for the bytes, and return a copy of them in host memory.
    fn tobytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.arrived(py, None)?;
        PyBytes::new_with(py, self.tensor.bytes() as usize, |target| {
            py.detach(|| self.tensor.read(target))
                .map_err(errors::device)
        })
    }

    /// Return a capsule over the bytes, in one dimension, without waiting for them.
    fn unwaited_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        device_export::unwaited(py, &self.tensor, true)
    }

    /// Return the elements as unsigned integers of the same size, for consumers without the type.
    fn bits(&self) -> PyResult<DeviceBits> {
        DeviceBits::new(self.tensor.clone())
    }

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
        self.arrived(py, None)?;
        let request = Request {
            stream,
            max_version,
            device: dl_device,
            copy,
            read_only: true,
        };
        device_export::export(py, &self.tensor, &request)
    }

    /// Return the device as DLPack names it.
    fn __dlpack_device__(&self) -> PyResult<(i32, i32)> {
        device_export::device_of(&self.tensor)
    }

    fn __len__(&self) -> PyResult<usize> {
        match self.tensor.shape().first() {
            Some(&len) => Ok(len as usize),
            None => Err(pyo3::exceptions::PyTypeError::new_err(
                "a tensor without dimensions has no length",
            )),
        }
    }

    fn __repr__(&self) -> String {
        let tensor = &self.tensor;
        let (name, dtype, shape) = (tensor.name(), tensor.dtype(), tensor.shape());
        let device = tensor.location();
        format!("<tetris.DeviceTensor {name:?}: {dtype} {shape:?}, {device}>")
    }
}
