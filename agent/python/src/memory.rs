//! Bytes that are in the store: published, derived, attached, or a whole file.

use std::ffi::{OsString, c_int};
use std::path::PathBuf;
use std::sync::Arc;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tetris_agent::{LoadReport, Region};
use tetris_store_layout::{Store, TensorId};

use crate::buffer::{self, Exported};
use crate::registry;
use crate::report;

/// Bytes in memory that is shared where it can be, with the buffer protocol. Keeps its object in the store.
#[pyclass(frozen, weakref, module = "tetris")]
pub(crate) struct Memory {
    region: Arc<Region>,
    read_only: bool,
    id: Option<TensorId>,
    path: Option<PathBuf>,
    private_reason: Option<String>,
}

impl Memory {
    pub(crate) fn region(&self) -> &Arc<Region> {
        &self.region
    }

    pub(crate) fn new(
        store: Option<&Store>,
        region: Arc<Region>,
        read_only: bool,
        private_reason: Option<String>,
    ) -> Self {
        let id = region.object().map(|object| TensorId(object.id.0));
        if let Some(id) = id {
            registry::enter(region.address(), region.len(), id, region.object());
        }
        let path = store
            .zip(region.object())
            .map(|(store, object)| store.object_path(object));
        Self {
            region,
            read_only,
            id,
            path,
            private_reason,
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.id.is_some() {
            registry::leave(self.region.address(), self.region.len());
        }
    }
}

#[pymethods]
impl Memory {
    /// Length in bytes.
    #[getter]
    fn nbytes(&self) -> usize {
        self.region.len()
    }

    /// BLAKE3-256 of the bytes; `None` if they are private.
    #[getter]
    fn id(&self) -> Option<String> {
        Some(self.id?.to_string())
    }

    /// The file name of the object; `None` if the bytes are private.
    #[getter]
    fn object(&self) -> Option<String> {
        Some(self.region.object()?.file_name())
    }

    /// The path of the object, valid while this lives; `None` if the bytes are private.
    #[getter]
    fn path(&self) -> Option<OsString> {
        Some(self.path.clone()?.into())
    }

    /// Place of the bytes: "shared", "new" or "private".
    #[getter]
    fn origin(&self) -> &'static str {
        self.region.origin().name()
    }

    /// True if the memory cannot be written to.
    #[getter]
    fn readonly(&self) -> bool {
        self.read_only
    }

    /// The reason a derived object is private, if it is.
    #[getter]
    fn private_reason(&self) -> Option<&str> {
        self.private_reason.as_deref()
    }

    fn __len__(&self) -> usize {
        self.region.len()
    }

    #[expect(unsafe_code, reason = "the signature is that of the buffer protocol")]
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let region = &slf.get().region;
        let exported = Exported {
            address: region.address(),
            len: region.len(),
            writable: !slf.get().read_only,
            layout: None,
        };
        // SAFETY: `view` and `flags` are the interpreter's; the memory is that of `slf`, which is frozen and
        // which the view keeps alive.
        unsafe { buffer::fill(view, flags, &exported, slf.clone().into_any()) }
    }

    fn __repr__(&self) -> String {
        let (len, origin) = (self.region.len(), self.region.origin().name());
        format!("<tetris.Memory: {len} bytes, {origin}>")
    }
}

/// A file kept whole, for programs that map it by path.
#[pyclass(frozen, weakref, module = "tetris")]
pub(crate) struct SharedFile {
    path: PathBuf,
    shared: bool,
    id: Option<String>,
    report: LoadReport,
    /// The reference to the object.
    _region: Option<Arc<Region>>,
}

impl SharedFile {
    pub(crate) fn new(file: tetris_agent::SharedFile) -> Self {
        let (path, shared) = (file.path().to_owned(), file.is_shared());
        let (region, report) = file.detach();
        let object = region.as_ref().and_then(|region| region.object());
        Self {
            path,
            shared,
            id: object.map(|object| object.id.to_string()),
            report,
            _region: region,
        }
    }
}

#[pymethods]
impl SharedFile {
    /// Path to map: in the store, or the original.
    #[getter]
    fn path(&self) -> OsString {
        self.path.clone().into()
    }

    /// True if it is in the store.
    #[getter]
    fn is_shared(&self) -> bool {
        self.shared
    }

    /// BLAKE3-256 of the file; `None` if it is not in the store.
    #[getter]
    fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// Report of the load.
    #[getter]
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        report::to_dict(py, &self.report)
    }

    fn __fspath__(&self) -> OsString {
        self.path.clone().into()
    }

    fn __repr__(&self) -> String {
        format!("<tetris.SharedFile '{}'>", self.path.display())
    }
}
