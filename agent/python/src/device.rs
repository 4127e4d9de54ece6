//! Loading into device memory.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use tetris_agent::device::{self, DEFAULT_TIMEOUT, DeviceOptions, Numbering, Registry, Target};

use crate::agent::Agent;
use crate::device_model::DeviceModel;
use crate::device_prefetch::{self, Prefetch};
use crate::device_wait::SLICE;
use crate::memory::Memory;
use crate::{errors, options};

/// The models that this process has in device memory.
#[pyclass(frozen, module = "tetris")]
pub(crate) struct DeviceRegistry {
    registry: Arc<Registry>,
}

#[pymethods]
impl DeviceRegistry {
    #[new]
    fn new() -> Self {
        Self {
            registry: Arc::default(),
        }
    }

    /// Map a model in the device memory that the node's mirror holds. Raises LoadError and GpuUnavailableError.
    #[pyo3(signature = (agent, path, device, *, order=None, wait=None, timeout=None, keep=false))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn load(
        &self,
        py: Python<'_>,
        agent: &Agent,
        path: PathBuf,
        device: &str,
        order: Option<Vec<String>>,
        wait: Option<f64>,
        timeout: Option<f64>,
        keep: bool,
    ) -> PyResult<DeviceModel> {
        let options = options_of(device, wait, timeout, keep)?;
        let options = options.with_order(order.unwrap_or_default());
        self.loaded(py, agent, options, move |registry, agent, options| {
            registry.load(agent, path, options)
        })
    }

    /// Map memory of the store in device memory. The tensors are its bytes, in this order. Raises GpuUnavailableError.
    #[pyo3(signature = (agent, memories, device, *, wait=None, timeout=None, keep=false))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
    #[expect(clippy::needless_pass_by_value, reason = "pyo3 extracts it so")]
    fn load_memories(
        &self,
        py: Python<'_>,
        agent: &Agent,
        memories: Vec<Py<Memory>>,
        device: &str,
        wait: Option<f64>,
        timeout: Option<f64>,
        keep: bool,
    ) -> PyResult<DeviceModel> {
        let options = options_of(device, wait, timeout, keep)?;
        let region = |memory: &Py<Memory>| Arc::clone(memory.get().region());
        let regions: Vec<_> = memories.iter().map(region).collect();
        self.loaded(py, agent, options, move |registry, agent, options| {
            registry.load_regions(agent, &regions, options)
        })
    }

    /// Give kept models back that no one uses; return the bytes that are no longer mapped.
    fn release(&self, py: Python<'_>) -> u64 {
        py.detach(|| self.registry.release())
    }

    /// Return the mirror's devices, with their names in this process if it has initialized CUDA. Raises
    /// GpuUnavailableError.
    #[pyo3(signature = (agent, timeout=None))]
    #[expect(clippy::unused_self, reason = "a method in Python")]
    fn devices<'py>(
        &self,
        py: Python<'py>,
        agent: &Agent,
        timeout: Option<f64>,
    ) -> PyResult<Bound<'py, PyList>> {
        let timeout = answer_within(timeout)?;
        let numbering = Numbering::IfInitialized;
        let devices = py.detach(|| device::devices(agent.agent(), timeout, numbering));
        let list = PyList::empty(py);
        for device in devices.map_err(|error| errors::device_of(error, agent.reason()))? {
            let dict = PyDict::new(py);
            dict.set_item("number", device.number)?;
            dict.set_item("device", device.location.map(|place| place.to_string()))?;
            dict.set_item("uuid", device.uuid)?;
            dict.set_item("name", device.name)?;
            dict.set_item("total_bytes", device.total_bytes)?;
            dict.set_item("free_bytes", device.free_bytes)?;
            dict.set_item("capacity_bytes", device.capacity_bytes)?;
            list.append(dict)?;
        }
        Ok(list)
    }

    /// Have the mirror bring a model to a device and hold it there. Returns at once. Raises GpuUnavailableError.
    #[pyo3(signature = (agent, path, device=None, *, order=None, wait=None, timeout=None))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn prefetch(
        &self,
        py: Python<'_>,
        agent: &Agent,
        path: PathBuf,
        device: Option<u32>,
        order: Option<Vec<String>>,
        wait: Option<f64>,
        timeout: Option<f64>,
    ) -> PyResult<Prefetch> {
        let timeout = answer_within(timeout)?;
        let registry = &self.registry;
        device_prefetch::begin(py, registry, agent, path, device, order, wait, timeout)
    }

    /// Return the state of a device, and of the models there that this process named. Raises GpuUnavailableError.
    #[pyo3(signature = (agent, device=None, timeout=None))]
    fn describe<'py>(
        &self,
        py: Python<'py>,
        agent: &Agent,
        device: Option<u32>,
        timeout: Option<f64>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let timeout = answer_within(timeout)?;
        device_prefetch::describe(py, &self.registry, agent, device, timeout)
    }

    /// Return what the mirror is doing. Raises GpuUnavailableError.
    #[pyo3(signature = (agent, timeout=None))]
    #[expect(clippy::unused_self, reason = "a method in Python")]
    fn usage<'py>(
        &self,
        py: Python<'py>,
        agent: &Agent,
        timeout: Option<f64>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let timeout = answer_within(timeout)?;
        let status = py.detach(|| device::status(agent.agent(), timeout));
        let status = status.map_err(|error| errors::device_of(error, agent.reason()))?;
        let devices = PyList::empty(py);
        for device in &status.devices {
            devices.append(device_status(py, device)?)?;
        }
        let dict = PyDict::new(py);
        dict.set_item("connections", status.connections)?;
        dict.set_item("leases", status.leases)?;
        dict.set_item("waiting", status.waiting)?;
        dict.set_item("devices", devices)?;
        Ok(dict)
    }
}

impl DeviceRegistry {
    /// Loads in its own thread, so that a signal ends the wait here; the thread ends by itself then.
    fn loaded(
        &self,
        py: Python<'_>,
        agent: &Agent,
        options: DeviceOptions,
        load: impl FnOnce(
            &Registry,
            &tetris_agent::Agent,
            &DeviceOptions,
        ) -> Result<device::DeviceModel, device::DeviceError>
        + Send
        + 'static,
    ) -> PyResult<DeviceModel> {
        let unavailable = agent.reason();
        let agent = agent.agent().clone();
        let registry = Arc::clone(&self.registry);
        let cancelled = Arc::clone(&options.cancelled);
        let (sender, mut receiver) = mpsc::sync_channel(1);
        let in_thread = move || {
            // The waiting thread may have been interrupted: then this drops the model.
            let _heard = sender.send(load(&registry, &agent, &options));
        };
        let thread = thread::Builder::new().name("tetris-load".to_owned());
        thread.spawn(in_thread)?;
        loop {
            let (model, back) = py.detach(move || (receiver.recv_timeout(SLICE), receiver));
            receiver = back;
            match model {
                Ok(model) => {
                    let model = model.map_err(|error| errors::device_of(error, unavailable));
                    return model.map(DeviceModel::new);
                }
                Err(RecvTimeoutError::Timeout) => py.check_signals().inspect_err(|_| {
                    cancelled.store(true, Ordering::Relaxed);
                })?,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(PyRuntimeError::new_err("the load ended without a result"));
                }
            }
        }
    }
}

fn options_of(
    device: &str,
    wait: Option<f64>,
    timeout: Option<f64>,
    keep: bool,
) -> PyResult<DeviceOptions> {
    let target = device.parse::<Target>();
    let target = target.map_err(|error| PyValueError::new_err(error.to_string()))?;
    let wait = wait.map(|seconds| options::time("wait", seconds));
    Ok(DeviceOptions::new(target)
        .with_wait(wait.transpose()?.unwrap_or_default())
        .with_timeout(answer_within(timeout)?)
        .with_keep(keep))
}

fn answer_within(timeout: Option<f64>) -> PyResult<Duration> {
    let timeout = timeout.map(|seconds| options::time("timeout", seconds));
    Ok(timeout.transpose()?.unwrap_or(DEFAULT_TIMEOUT))
}

fn device_status<'py>(
    py: Python<'py>,
    device: &device::DeviceStatus,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("uuid", device.uuid.to_string())?;
    dict.set_item("capacity_bytes", device.capacity_bytes)?;
    dict.set_item("created_bytes", device.created_bytes)?;
    dict.set_item("live_bytes", device.live_bytes)?;
    dict.set_item("held_bytes", device.held_bytes)?;
    dict.set_item("models", device.models)?;
    dict.set_item("held_models", device.held_models)?;
    Ok(dict)
}
