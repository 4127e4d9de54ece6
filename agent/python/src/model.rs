//! A loaded model: tensors by name.

use std::collections::HashMap;

use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use tetris_agent::LoadReport;

use crate::report;
use crate::tensor::Tensor;

/// Tensors by name, in file order. Each keeps its own reference to the store, so it outlives the model.
#[pyclass(frozen, mapping, module = "tetris")]
pub(crate) struct Model {
    tensors: Vec<Py<Tensor>>,
    by_name: HashMap<String, usize>,
    metadata: Vec<(String, String)>,
    report: LoadReport,
}

impl Model {
    pub(crate) fn new(
        py: Python<'_>,
        model: tetris_agent::Model,
        read_only: bool,
    ) -> PyResult<Self> {
        let to_owned = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
        let metadata = model.metadata().map(to_owned).collect();
        let (tensors, report) = model.detach();
        let by_name = tensors.iter().map(|tensor| tensor.name.clone());
        let by_name = by_name.zip(0..).collect();
        let tensors = tensors
            .into_iter()
            .map(|tensor| Py::new(py, Tensor::new(tensor, read_only)))
            .collect::<PyResult<_>>()?;
        Ok(Self {
            tensors,
            by_name,
            metadata,
            report,
        })
    }

    fn find(&self, name: &str) -> Option<&Py<Tensor>> {
        self.tensors.get(*self.by_name.get(name)?)
    }

    fn names<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.tensors.iter().map(|tensor| tensor.get().name()))
    }
}

#[pymethods]
impl Model {
    fn __getitem__(&self, py: Python<'_>, name: &str) -> PyResult<Py<Tensor>> {
        match self.find(name) {
            Some(tensor) => Ok(tensor.clone_ref(py)),
            None => Err(PyKeyError::new_err(name.to_owned())),
        }
    }

    /// Return a tensor, or `default` if there is none of this name.
    #[pyo3(signature = (name, default=None))]
    fn get(&self, py: Python<'_>, name: &str, default: Option<Py<PyAny>>) -> Option<Py<PyAny>> {
        match self.find(name) {
            Some(tensor) => Some(tensor.clone_ref(py).into_any()),
            None => default,
        }
    }

    fn __contains__(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    fn __len__(&self) -> usize {
        self.tensors.len()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, pyo3::types::PyIterator>> {
        self.names(py)?.try_iter()
    }

    /// Return the names, in the order of the files.
    fn keys<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.names(py)
    }

    /// Return the tensors.
    fn values<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.tensors.iter().map(|tensor| tensor.clone_ref(py)))
    }

    /// Return pairs of name and tensor.
    fn items<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let pair = |tensor: &Py<Tensor>| (tensor.get().name().to_owned(), tensor.clone_ref(py));
        PyList::new(py, self.tensors.iter().map(pair))
    }

    /// The strings under `__metadata__` of the files.
    #[getter]
    fn metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (key, value) in &self.metadata {
            dict.set_item(key, value)?;
        }
        Ok(dict)
    }

    /// Report of the load.
    #[getter]
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        report::to_dict(py, &self.report)
    }

    fn __repr__(&self) -> String {
        let (tensors, bytes) = (self.tensors.len(), self.report.bytes_total());
        format!("<tetris.Model: {tensors} tensors, {bytes} bytes>")
    }
}
