//! A tensor as an object with the buffer protocol and DLPack.

use std::ffi::c_int;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use tetris_agent::DetachedTensor;

use crate::buffer::{self, Exported};
use crate::dlpack;
use crate::registry;

/// A tensor in memory that is shared where it can be. It holds one reference to its object in the store.
#[pyclass(frozen, weakref, module = "tetris")]
pub(crate) struct Tensor {
    tensor: Arc<Registered>,
    read_only: bool,
    layout: OnceLock<Option<buffer::Layout>>,
}

impl Tensor {
    pub(crate) fn new(tensor: DetachedTensor, read_only: bool) -> Self {
        Self {
            tensor: Arc::new(Registered::new(tensor)),
            read_only,
            layout: OnceLock::new(),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.tensor.name
    }

    /// Element type and strides, for buffer requests that want them.
    fn layout(&self) -> Option<&buffer::Layout> {
        self.layout
            .get_or_init(|| buffer::Layout::of(self.tensor.dtype, &self.tensor.shape))
            .as_ref()
    }
}

/// A tensor known by its address for as long as this lives: in the object, and in the tensors of other libraries that took its
/// memory over.
struct Registered(DetachedTensor);

impl Registered {
    fn new(tensor: DetachedTensor) -> Self {
        if let Some(id) = tensor.id {
            let object = tensor.region.as_ref().and_then(|region| region.object());
            registry::enter(tensor.address(), tensor.len, id, object);
        }
        Self(tensor)
    }
}

impl Deref for Registered {
    type Target = DetachedTensor;

    fn deref(&self) -> &DetachedTensor {
        &self.0
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        if self.0.id.is_some() {
            registry::leave(self.0.address(), self.0.len);
        }
    }
}

#[pymethods]
impl Tensor {
    /// The tensor's name.
    #[getter(name)]
    fn py_name(&self) -> &str {
        self.name()
    }

    /// The element type as safetensors spells it, such as "BF16".
    #[getter]
    fn dtype(&self) -> &'static str {
        self.tensor.dtype.name()
    }

    /// Dimensions, outermost first.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.tensor.shape)
    }

    /// Length in bytes.
    #[getter]
    fn nbytes(&self) -> usize {
        self.tensor.len
    }

    /// BLAKE3-256 of the bytes as they were loaded; `None` if they were not hashed.
    #[getter]
    fn id(&self) -> Option<String> {
        Some(self.tensor.id?.to_string())
    }

    /// Place of the bytes: "shared", "new", "private" or "empty".
    #[getter]
    fn origin(&self) -> &'static str {
        self.tensor.origin.name()
    }

    /// True if the memory cannot be written to.
    #[getter]
    fn readonly(&self) -> bool {
        self.read_only
    }

    #[expect(unsafe_code, reason = "the signature is that of the buffer protocol")]
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let this = slf.get();
        let exported = Exported {
            address: this.tensor.address(),
            len: this.tensor.len,
            writable: !this.read_only,
            layout: this.layout(),
        };
        // SAFETY: `view` and `flags` are the interpreter's; memory and layout are those of `slf`, which is
        // frozen and which the view keeps alive.
        unsafe { buffer::fill(view, flags, &exported, slf.clone().into_any()) }
    }

    /// Return a capsule over the memory (array API standard).
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        slf: Bound<'py, Self>,
        stream: Option<Bound<'py, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let request = dlpack::Request {
            stream,
            max_version,
            device: dl_device,
            copy,
            read_only: slf.get().read_only,
        };
        let tensor = &slf.get().tensor;
        let memory = Arc::clone(tensor);
        dlpack::export(slf.py(), tensor, memory, &request)
    }

    /// Return the device: host memory.
    #[expect(clippy::unused_self, reason = "a method in Python")]
    fn __dlpack_device__(&self) -> (i32, i32) {
        dlpack::CPU
    }

    fn __len__(&self) -> PyResult<usize> {
        match self.tensor.shape.first() {
            Some(&len) => Ok(len as usize),
            None => Err(pyo3::exceptions::PyTypeError::new_err(
                "a tensor without dimensions has no length",
            )),
        }
    }

    fn __repr__(&self) -> String {
        let tensor = &self.tensor;
        let (name, dtype, shape) = (&tensor.name, tensor.dtype, &tensor.shape);
        let origin = tensor.origin.name();
        format!("<tetris.Tensor {name:?}: {dtype} {shape:?}, {origin}>")
    }
}
