//! A safetensors file that is open and not loaded yet.

use std::ffi::OsString;
use std::os::fd::AsRawFd;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use tetris_agent::{LoadOptions, ModelFile};

use crate::errors;
use crate::model::Model;
use crate::options;

/// An open safetensors file of which the header has been read.
#[pyclass(frozen, module = "tetris")]
pub(crate) struct File {
    file: ModelFile,
    /// Those of the agent, where a load does not say.
    options: LoadOptions,
}

impl File {
    pub(crate) fn new(file: ModelFile, options: LoadOptions) -> Self {
        Self { file, options }
    }
}

#[pymethods]
impl File {
    /// The opened path.
    #[getter]
    fn path(&self) -> OsString {
        self.file.path().into()
    }

    /// The descriptor of the open file; it stays this object's own.
    fn fileno(&self) -> i32 {
        self.file.as_fd().as_raw_fd()
    }

    /// The tensors in file order: name to `(dtype, shape)`.
    fn tensors<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for tensor in &self.file.header().tensors {
            let dtype = tensor.dtype.to_string();
            dict.set_item(&tensor.name, (dtype, &tensor.shape))?;
        }
        Ok(dict)
    }

    /// The strings under `__metadata__`; `None` if there are none.
    fn metadata<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let metadata = &self.file.header().metadata;
        if metadata.is_empty() {
            return Ok(None);
        }
        let dict = PyDict::new(py);
        for (key, value) in metadata {
            dict.set_item(key, value)?;
        }
        Ok(Some(dict))
    }

    /// The content id of the file, of 64 hexadecimal digits; `None` if the store does not know the file.
    fn content_id(&self) -> Option<String> {
        self.file.known_manifest().map(|id| id.to_string())
    }

    /// The reason to leave the file, too new to be shared and not small, to another loader; `None` otherwise.
    fn leave(&self) -> Option<String> {
        self.file.leave(&self.options)
    }

    /// Load the tensors. Raises LoadError when the file has become invalid.
    #[pyo3(signature = (*, mode="read_only", prefault=false, threads=None, wait=None, progress=None))]
    fn load(
        &self,
        py: Python<'_>,
        mode: &str,
        prefault: bool,
        threads: Option<usize>,
        wait: Option<f64>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Model> {
        let read_only = options::is_read_only(mode)?;
        let mut options = options::load(prefault, threads, wait, progress)?;
        options.min_shared_bytes = self.options.min_shared_bytes;
        let model = py.detach(|| self.file.load(&options));
        Model::new(py, model.map_err(errors::load)?, read_only)
    }
}
