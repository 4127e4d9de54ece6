//! Models that the mirror holds on a device, and the state of a device.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pyo3::exceptions::PyTimeoutError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use tetris_agent::device::{
    self, DeviceView, ModelState, PrefetchOptions, PrefetchState, Registry,
};

use crate::agent::Agent;
use crate::device_wait::SLICE;
use crate::{errors, options};

/// A model on a device, or on its way there, that the mirror holds for this process.
#[pyclass(frozen, weakref, module = "tetris")]
pub(crate) struct Prefetch(device::Prefetch);

#[pymethods]
impl Prefetch {
    /// "loading", "waiting" for room, "resident", "failed" or "closed".
    #[getter]
    fn state(&self, py: Python<'_>) -> &'static str {
        match py.detach(|| self.0.state()) {
            PrefetchState::Loading => "loading",
            PrefetchState::Waiting => "waiting",
            PrefetchState::Resident => "resident",
            PrefetchState::Failed => "failed",
            PrefetchState::Closed => "closed",
        }
    }

    /// Identity of the content, as `status` has it; `None` until the files have been recognized.
    #[getter]
    fn model(&self) -> Option<String> {
        self.0.model().map(|model| model.to_string())
    }

    /// Bytes of the model's objects; 0 until the files have been recognized.
    #[getter]
    fn nbytes(&self) -> u64 {
        self.0.bytes()
    }

    /// Bytes that are not on the device.
    #[getter]
    fn bytes_left(&self) -> u64 {
        self.0.bytes_left()
    }

    /// Reason that it failed; `None` if it did not.
    #[getter]
    fn reason(&self, py: Python<'_>) -> Option<String> {
        let error = py.detach(|| self.0.error());
        error.map(|error| error.to_string())
    }

    /// Wait until the model is resident. Raises LoadError, GpuUnavailableError and TimeoutError.
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let limit = timeout.map(|seconds| options::time("timeout", seconds));
        let limit = limit.transpose()?;
        let begun = Instant::now();
        loop {
            let left = limit.map_or(SLICE, |limit| limit.saturating_sub(begun.elapsed()));
            match py.detach(|| self.0.wait(left.min(SLICE))) {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(error) => return Err(errors::prefetch(&error)),
            }
            py.check_signals()?;
            if left.is_zero() {
                let seconds = timeout.unwrap_or_default();
                return Err(PyTimeoutError::new_err(format!(
                    "expected the model on the device within {seconds} s; it is still on its way"
                )));
            }
        }
    }

    /// Let go of the model: the mirror may evict it.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.0.close());
    }

    fn __enter__(this: Bound<'_, Self>) -> Bound<'_, Self> {
        this
    }

    #[pyo3(signature = (kind, error, traceback, /))]
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: Bound<'_, PyAny>,
        error: Bound<'_, PyAny>,
        traceback: Bound<'_, PyAny>,
    ) {
        let _unused = (kind, error, traceback);
        self.close(py);
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let (state, bytes) = (self.state(py), self.0.bytes());
        format!("<tetris.Prefetch: {bytes} bytes, {state}>")
    }
}

/// Starts a prefetch.
#[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
pub(crate) fn begin(
    py: Python<'_>,
    registry: &Arc<Registry>,
    agent: &Agent,
    path: PathBuf,
    device: Option<u32>,
    order: Option<Vec<String>>,
    wait: Option<f64>,
    timeout: Duration,
) -> PyResult<Prefetch> {
    let mut wanted = PrefetchOptions::default();
    wanted.device = device;
    wanted.order = order.unwrap_or_default();
    wanted.timeout = timeout;
    if let Some(seconds) = wait {
        wanted.wait = options::time("wait", seconds)?;
    }
    let begun = py.detach(|| registry.prefetch(agent.agent(), path, wanted));
    let begun = begun.map_err(|error| errors::device_of(error, agent.reason()));
    begun.map(Prefetch)
}

/// Returns the state of a device.
pub(crate) fn describe<'py>(
    py: Python<'py>,
    registry: &Registry,
    agent: &Agent,
    device: Option<u32>,
    timeout: Duration,
) -> PyResult<Bound<'py, PyDict>> {
    let view = py.detach(|| registry.describe(agent.agent(), device, timeout));
    let view = view.map_err(|error| errors::device_of(error, agent.reason()))?;
    to_dict(py, &view)
}

fn to_dict<'py>(py: Python<'py>, view: &DeviceView) -> PyResult<Bound<'py, PyDict>> {
    let device = &view.device;
    let (links, transfers, models) = (PyList::empty(py), PyList::empty(py), PyList::empty(py));
    for link in &view.links {
        let dict = PyDict::new(py);
        dict.set_item("to", link.to.to_string())?;
        dict.set_item("bytes_per_second", link.bytes_per_second)?;
        links.append(dict)?;
    }
    for (model, bytes_left) in &view.transfers {
        let dict = PyDict::new(py);
        dict.set_item("model", model.map(|model| model.to_string()))?;
        dict.set_item("bytes_left", bytes_left)?;
        transfers.append(dict)?;
    }
    for model in &view.models {
        let dict = PyDict::new(py);
        dict.set_item("model", model.model.to_string())?;
        dict.set_item("bytes", model.bytes)?;
        dict.set_item("state", name(model.state))?;
        dict.set_item("bytes_left", model.bytes_left)?;
        models.append(dict)?;
    }
    let dict = PyDict::new(py);
    dict.set_item("uuid", device.device.to_string())?;
    dict.set_item("capacity_bytes", device.capacity_bytes)?;
    dict.set_item("free_bytes", device.free_bytes)?;
    dict.set_item("bytes_per_second", device.bytes_per_second)?;
    dict.set_item("light_bytes", device.light_bytes)?;
    let switch = Some(&device.switch).filter(|name| !name.is_empty());
    dict.set_item("switch", switch)?;
    dict.set_item("links", links)?;
    dict.set_item("transfers", transfers)?;
    dict.set_item("models", models)?;
    Ok(dict)
}

fn name(state: ModelState) -> &'static str {
    match state {
        ModelState::Absent => "absent",
        ModelState::Loading => "loading",
        ModelState::Resident => "resident",
    }
}
