//! A model in device memory: tensors by name.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pyo3::exceptions::{PyKeyError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use tetris_agent::device::{self, ClientError, Location};

use crate::device_tensor::DeviceTensor;
use crate::{device_export, device_wait, dlpack, errors, options, report};

/// Tensors in device memory by name, in file order. Each keeps the model there, so it outlives this.
#[pyclass(frozen, mapping, weakref, module = "tetris")]
pub(crate) struct DeviceModel {
    /// `None` after it was released.
    named: Mutex<Option<Arc<Named>>>,
}

struct Named {
    model: device::DeviceModel,
    by_name: HashMap<String, usize>,
}

impl Named {
    fn find(&self, name: &str) -> Option<&device::DeviceTensor> {
        self.model.tensors().get(*self.by_name.get(name)?)
    }

    fn expect(&self, name: &str) -> PyResult<&device::DeviceTensor> {
        let tensor = self.find(name);
        tensor.ok_or_else(|| PyKeyError::new_err(name.to_owned()))
    }

    fn wait(&self, name: Option<&str>, limit: Duration) -> Result<bool, device::DeviceError> {
        match name.and_then(|name| self.find(name)) {
            Some(tensor) => tensor.wait(limit),
            None => self.model.wait(limit),
        }
    }
}

impl DeviceModel {
    pub(crate) fn new(model: device::DeviceModel) -> Self {
        let names = model
            .tensors()
            .iter()
            .map(|tensor| tensor.name().to_owned());
        let by_name = names.zip(0..).collect();
        let named = Arc::new(Named { model, by_name });
        Self {
            named: Mutex::new(Some(named)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Named>>> {
        self.named.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn named(&self) -> PyResult<Arc<Named>> {
        let named = self.lock().clone();
        named.ok_or_else(|| PyRuntimeError::new_err("the model was released; load it again"))
    }
}

fn own(tensor: &device::DeviceTensor) -> DeviceTensor {
    DeviceTensor::new(tensor.clone())
}

#[pymethods]
impl DeviceModel {
    /// The device: "cuda:0", or "simulated".
    #[getter]
    fn device(&self) -> PyResult<String> {
        Ok(self.named()?.model.location().to_string())
    }

    /// Device memory mapped for the model, in bytes.
    #[getter]
    fn mapped_bytes(&self) -> PyResult<u64> {
        Ok(self.named()?.model.mapped_bytes())
    }

    /// Bytes of the model's objects, each once.
    #[getter]
    fn nbytes(&self) -> PyResult<u64> {
        Ok(self.named()?.model.bytes())
    }

    /// Bytes of the model's objects that have arrived.
    #[getter]
    fn resident_bytes(&self, py: Python<'_>) -> PyResult<u64> {
        let named = self.named()?;
        py.detach(|| named.model.resident_bytes())
            .map_err(errors::device)
    }

    /// The strings under `__metadata__` of the files.
    #[getter]
    fn metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (key, value) in self.named()?.model.metadata() {
            dict.set_item(key, value)?;
        }
        Ok(dict)
    }

    /// Report of the load into the store.
    #[getter]
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        report::to_dict(py, self.named()?.model.report())
    }

    /// Wait until a tensor, or the whole model, has arrived.
    #[pyo3(signature = (name=None, timeout=None))]
    fn wait(&self, py: Python<'_>, name: Option<&str>, timeout: Option<f64>) -> PyResult<()> {
        let named = self.named()?;
        let what = match name {
            Some(name) => format!("tensor {:?}", named.expect(name)?.name()),
            None => "the model".to_owned(),
        };
        device_wait::until(py, timeout, &what, |limit| named.wait(name, limit))
    }

    /// Have a stream wait for a tensor, and not the host. Return false if it has arrived already.
    fn wait_on_stream(
        &self,
        py: Python<'_>,
        name: &str,
        stream: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        let named = self.named()?;
        let tensor = named.expect(name)?;
        let device = match tensor.location() {
            Location::Cuda(number) => number,
            // It has no streams, and refuses one.
            Location::Simulated => 0,
        };
        let stream = dlpack::stream_of(stream, device)?;
        py.detach(|| tensor.wait_on_stream(stream))
            .map_err(errors::device)
    }

    /// Wait until all tensors have arrived for which streams wait.
    #[pyo3(signature = (timeout=None))]
    fn check_streams(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let named = self.named()?;
        let what = "tensors that streams wait for";
        device_wait::until(py, timeout, what, |limit| {
            match named.model.check_streams(limit) {
                Ok(()) => Ok(true),
                Err(device::DeviceError::Mirror(ClientError::TimedOut { .. })) => Ok(false),
                Err(error) => Err(error),
            }
        })
    }

    /// Ask the mirror to keep a prefix of the model, and return its bytes and the measured bytes per second.
    fn keep_prefix(&self, py: Python<'_>, ttft: f64, most_bytes: u64) -> PyResult<(u64, u64)> {
        let named = self.named()?;
        let ttft = options::time("ttft", ttft)?;
        let kept = py.detach(|| named.model.keep_prefix(ttft, most_bytes));
        let kept = kept.map_err(errors::device)?;
        Ok((kept.prefix_bytes, kept.bytes_per_sec))
    }

    /// Return whether a tensor, or the whole model, has arrived.
    #[pyo3(signature = (name=None))]
    fn is_ready(&self, py: Python<'_>, name: Option<&str>) -> PyResult<bool> {
        let named = self.named()?;
        if let Some(name) = name {
            named.expect(name)?;
        }
        py.detach(|| named.wait(name, Duration::ZERO))
            .map_err(errors::device)
    }

    /// Return the names of the tensors that have not arrived, in the order of the files. Does not wait.
    fn arriving<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let named = self.named()?;
        let names = py.detach(|| {
            let mut arrived = Vec::new();
            for tensor in named.model.tensors() {
                if !tensor.wait(Duration::ZERO)? {
                    arrived.push(tensor.name());
                }
            }
            Ok(arrived)
        });
        PyList::new(py, names.map_err(errors::device)?)
    }

    /// Return the tensors that have bytes, in the order of the files: name, address, length in bytes, and a capsule over
    /// the elements, `None` for element types that are not among `dtypes`. Does not wait for bytes.
    #[expect(
        clippy::type_complexity,
        reason = "a tuple of Python's, which is made for each tensor of a model"
    )]
    fn unwaited<'py>(
        &self,
        py: Python<'py>,
        dtypes: HashSet<String>,
    ) -> PyResult<Vec<(String, u64, u64, Option<Bound<'py, PyAny>>)>> {
        let named = self.named()?;
        let tensors = named.model.tensors().iter();
        tensors
            .filter(|tensor| tensor.bytes() > 0)
            .map(|tensor| {
                let known = dtypes.contains(tensor.dtype().name());
                let capsule = known.then(|| device_export::unwaited(py, tensor, false));
                let name = tensor.name().to_owned();
                Ok((name, tensor.address(), tensor.bytes(), capsule.transpose()?))
            })
            .collect()
    }

    /// Let go of the model.
    fn release(&self, py: Python<'_>) {
        let named = self.lock().take();
        // Unmapping waits for the device.
        py.detach(|| {
            drop(named);
            device::settle_unmapping();
        });
    }

    fn __getitem__(&self, name: &str) -> PyResult<DeviceTensor> {
        self.named()?.expect(name).map(own)
    }

    /// Return a tensor, or `default` if there is none of this name.
    #[pyo3(signature = (name, default=None))]
    fn get(
        &self,
        py: Python<'_>,
        name: &str,
        default: Option<Py<PyAny>>,
    ) -> PyResult<Option<Py<PyAny>>> {
        match self.named()?.find(name) {
            Some(tensor) => Ok(Some(Py::new(py, own(tensor))?.into_any())),
            None => Ok(default),
        }
    }

    fn __contains__(&self, name: &Bound<'_, PyAny>) -> PyResult<bool> {
        let named = self.named()?;
        Ok(name
            .extract::<&str>()
            .is_ok_and(|name| named.find(name).is_some()))
    }

    fn __len__(&self) -> PyResult<usize> {
        Ok(self.named()?.model.tensors().len())
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, pyo3::types::PyIterator>> {
        self.keys(py)?.try_iter()
    }

    /// Return the names, in the order of the files.
    fn keys<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let named = self.named()?;
        PyList::new(
            py,
            named.model.tensors().iter().map(device::DeviceTensor::name),
        )
    }

    /// Return the tensors.
    fn values<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let named = self.named()?;
        PyList::new(py, named.model.tensors().iter().map(own))
    }

    /// Return pairs of name and tensor.
    fn items<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let named = self.named()?;
        let pair = |tensor: &device::DeviceTensor| (tensor.name().to_owned(), own(tensor));
        PyList::new(py, named.model.tensors().iter().map(pair))
    }

    fn __repr__(&self) -> String {
        match &*self.lock() {
            None => "<tetris.DeviceModel: released>".to_owned(),
            Some(named) => {
                let model = &named.model;
                let (tensors, bytes) = (model.tensors().len(), model.bytes());
                let device = model.location();
                format!("<tetris.DeviceModel: {tensors} tensors, {bytes} bytes, {device}>")
            }
        }
    }
}
