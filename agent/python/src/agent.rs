//! The agent.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tetris_agent::store_location::StoreLocation;
use tetris_agent::{CreateOptions, LoadOptions, PrivateCause, Store, Words};
use tetris_store_layout::TensorId;

use crate::errors;
use crate::file::File;
use crate::foreign_bytes::ForeignBytes;
use crate::layout::{self, Layout};
use crate::memory::{Memory, SharedFile};
use crate::model::Model;
use crate::options;

/// Loads models through a tensor store, or without one.
#[pyclass(frozen, module = "tetris")]
pub(crate) struct Agent {
    agent: tetris_agent::Agent,
    /// The smallest file that is shared, where a load does not say.
    min_shared_bytes: u64,
}

#[pymethods]
impl Agent {
    /// With a path, an agent of the store there, or an error; without, one of no store.
    #[new]
    #[pyo3(signature = (store=None, *, min_shared_bytes=None))]
    fn new(
        py: Python<'_>,
        store: Option<PathBuf>,
        min_shared_bytes: Option<u64>,
    ) -> PyResult<Self> {
        let agent = match store {
            None => tetris_agent::Agent::without_store(),
            Some(dir) => {
                let location = StoreLocation::named(dir);
                let store = py.detach(|| location.open()).map_err(errors::location)?;
                tetris_agent::Agent::with_store(store)
            }
        };
        Ok(Self {
            agent,
            min_shared_bytes: min_shared_bytes.unwrap_or_else(options::min_shared_bytes),
        })
    }

    /// An agent of the store that `TETRIS_STORE` names, or of the default one; without a store if there is
    /// none that can be used.
    #[staticmethod]
    fn from_env(py: Python<'_>) -> Self {
        // The caller warns in the log `tetris`, so not [`tetris_agent::Agent::from_env`], which does too.
        let agent = py.detach(|| tetris_agent::Agent::at_silently(&StoreLocation::from_env()));
        Self {
            agent,
            min_shared_bytes: options::min_shared_bytes(),
        }
    }

    /// The store's directory; `None` without a store.
    #[getter]
    fn store(&self) -> Option<OsString> {
        Some(self.agent.store()?.root().into())
    }

    /// The directory of the store's objects; `None` without a store.
    #[getter]
    fn objects_dir(&self) -> Option<OsString> {
        Some(self.agent.store()?.objects_dir().into())
    }

    /// The reason that the configured store cannot be used, if it cannot.
    #[getter]
    fn unavailable(&self) -> Option<&str> {
        self.agent.unavailable()
    }

    /// The code of that reason's cause, such as "no-store".
    #[getter]
    fn unavailable_cause(&self) -> Option<&'static str> {
        self.agent.unavailable_cause().map(PrivateCause::code)
    }

    /// The next step that makes the configured store usable.
    #[getter]
    fn unavailable_remedy(&self) -> Option<String> {
        self.agent.unavailable_remedy(Words::Python)
    }

    /// The reason that this store is used and no other, if the agent chose it.
    #[getter]
    fn store_choice(&self) -> Option<String> {
        Some(self.agent.store_choice()?.to_string())
    }

    /// Counts of loads, of those with private parts, of brokered files, of private, shared and new bytes, and of
    /// files not worth sharing.
    #[getter]
    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counters = self.agent.counters();
        let dict = PyDict::new(py);
        dict.set_item("loads", counters.loads)?;
        dict.set_item("brokered_files", counters.brokered_files)?;
        dict.set_item("private_loads", counters.private_loads)?;
        dict.set_item("private_bytes", counters.private_bytes)?;
        dict.set_item("shared_bytes", counters.shared_bytes)?;
        dict.set_item("new_bytes", counters.new_bytes)?;
        dict.set_item("other_file_bytes", counters.other_file_bytes)?;
        dict.set_item("unshared_files", counters.unshared_files)?;
        dict.set_item("unshared_bytes", counters.unshared_bytes)?;
        Ok(dict)
    }

    /// Load a safetensors file, or a directory as Hugging Face lays it out.
    ///
    /// Raises LoadError when the model's files are missing or invalid, and never because of the store.
    #[pyo3(signature = (path, *, mode="read_only", prefault=false, threads=None, wait=None, progress=None, min_shared_bytes=None))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn load(
        &self,
        py: Python<'_>,
        path: PathBuf,
        mode: &str,
        prefault: bool,
        threads: Option<usize>,
        wait: Option<f64>,
        progress: Option<Py<PyAny>>,
        min_shared_bytes: Option<u64>,
    ) -> PyResult<Model> {
        let read_only = options::is_read_only(mode)?;
        let mut options = options::load(prefault, threads, wait, progress)?;
        options.min_shared_bytes = min_shared_bytes.unwrap_or(self.min_shared_bytes);
        let model = py.detach(|| self.agent.load_with(path, &options));
        Model::new(py, model.map_err(errors::load)?, read_only)
    }

    /// Load a safetensors file for copies on write; `None` if it is too new to be shared and not small, for another
    /// to load. Raises LoadError.
    fn load_unless_new(&self, py: Python<'_>, path: PathBuf) -> PyResult<Option<Model>> {
        let options = self.options();
        let model = py.detach(|| self.agent.load_unless_new(path, &options));
        let model = model.map_err(errors::load)?;
        model.map(|model| Model::new(py, model, false)).transpose()
    }

    /// Open a safetensors file and read its header. Raises LoadError.
    fn open_file(&self, py: Python<'_>, path: PathBuf) -> PyResult<File> {
        let file = py.detach(|| self.agent.open_file(path));
        Ok(File::new(file.map_err(errors::load)?, self.options()))
    }

    /// Keep a whole file of any format in the store, for programs that map it by path. Raises LoadError.
    #[pyo3(signature = (path, *, threads=None, wait=None, progress=None))]
    fn share_file(
        &self,
        py: Python<'_>,
        path: PathBuf,
        threads: Option<usize>,
        wait: Option<f64>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<SharedFile> {
        let options = options::load(false, threads, wait, progress)?;
        let file = py.detach(|| self.agent.share_file(path, &options));
        Ok(SharedFile::new(file.map_err(errors::load)?))
    }

    /// Return the BLAKE3-256 of a whole file as 64 hexadecimal digits; a store remembers it. Raises LoadError.
    fn file_id(&self, py: Python<'_>, path: PathBuf) -> PyResult<String> {
        let id = py.detach(|| self.agent.file_id(path));
        Ok(id.map_err(errors::load)?.to_string())
    }

    /// Put C-contiguous bytes into the store as one object, or find it there. Raises ShareError.
    #[pyo3(signature = (data, *, mode="read_only"))]
    fn publish(&self, py: Python<'_>, data: &Bound<'_, PyAny>, mode: &str) -> PyResult<Memory> {
        let (options, read_only) = (options::default(), options::is_read_only(mode)?);
        let bytes = ForeignBytes::of(data)?;
        let published = py.detach(|| {
            let read_at = |offset, buffer: &mut [u8]| bytes.read_at(offset, buffer);
            self.agent.publish(bytes.len() as u64, &read_at, &options)
        });
        Ok(Memory::new(
            self.agent().store(),
            published.map_err(errors::share)?,
            read_only,
            None,
        ))
    }

    /// Return what a transform makes of the bytes `source_id`: from the store, or by calling `make`.
    #[pyo3(signature = (source_id, transform, version, make, *, mode="read_only"))]
    fn derive(
        &self,
        py: Python<'_>,
        source_id: &str,
        transform: &str,
        version: u32,
        make: &Bound<'_, PyAny>,
        mode: &str,
    ) -> PyResult<Memory> {
        let (options, read_only) = (options::default(), options::is_read_only(mode)?);
        let source = TensorId::from_str(source_id)
            .map_err(|error| PyValueError::new_err(format!("source_id: {error}")))?;
        let make = make.clone().unbind();
        let derived = py.detach(|| {
            self.agent.derive(source, transform, version, &options, || {
                Python::attach(|py| ForeignBytes::of(&make.call0(py)?.into_bound(py))?.to_vec())
            })
        });
        let derived = derived.map_err(|error| PyValueError::new_err(error.to_string()))??;
        let reason = derived.private_reason().map(str::to_owned);
        Ok(Memory::new(
            self.agent().store(),
            derived.detach(),
            read_only,
            reason,
        ))
    }

    /// Return the layout of a key: attached, or what `build` returns, published and recorded.
    #[pyo3(signature = (transform, version, sources, conditions, build, *, mode="read_only", wait=None))]
    #[expect(clippy::too_many_arguments, reason = "they are the key's parts")]
    fn layout(
        &self,
        py: Python<'_>,
        transform: &str,
        version: u32,
        sources: BTreeMap<String, String>,
        conditions: BTreeMap<String, String>,
        build: &Bound<'_, PyAny>,
        mode: &str,
        wait: Option<f64>,
    ) -> PyResult<Layout> {
        let read_only = options::is_read_only(mode)?;
        let options = options::load(false, None, wait, None)?;
        let key = layout::key(transform, version, sources, conditions)?;
        let build = build.clone().unbind();
        let attached = py.detach(|| {
            self.agent.layout(&key, &options, || {
                Python::attach(|py| layout::parts(build.call0(py)?.extract(py)?))
            })
        });
        let attached = attached.map_err(|error| PyValueError::new_err(error.to_string()))??;
        Layout::new(py, self.agent().store(), attached, read_only)
    }

    /// Return the object with this file name, or `None` if it is not in the store.
    #[pyo3(signature = (object, *, mode="read_only"))]
    fn attach(&self, py: Python<'_>, object: &str, mode: &str) -> PyResult<Option<Memory>> {
        let (options, read_only) = (options::default(), options::is_read_only(mode)?);
        let region = py.detach(|| self.agent.attach(object, &options));
        let region = region.map_err(errors::map)?;
        Ok(region.map(|region| Memory::new(self.agent().store(), region, read_only, None)))
    }

    fn __repr__(&self) -> String {
        match self.agent.store() {
            Some(store) => format!("tetris.Agent('{}')", store.root().display()),
            None => "tetris.Agent(None)".to_owned(),
        }
    }
}

impl Agent {
    /// The reason that the configured store cannot be used, if it cannot.
    pub(crate) fn reason(&self) -> Option<&str> {
        self.agent.unavailable()
    }

    pub(crate) fn agent(&self) -> &tetris_agent::Agent {
        &self.agent
    }

    /// Options without arguments.
    fn options(&self) -> LoadOptions {
        options::default().with_min_shared_bytes(self.min_shared_bytes)
    }
}

/// Creates an empty store in a directory on a tmpfs.
#[pyfunction]
#[pyo3(signature = (path, *, allow_other_file_systems=false))]
pub(crate) fn create_store(
    py: Python<'_>,
    path: PathBuf,
    allow_other_file_systems: bool,
) -> PyResult<()> {
    let options = CreateOptions::default().with_allow_other_file_systems(allow_other_file_systems);
    let created = py.detach(|| Store::create(path, &options));
    created.map(drop).map_err(errors::store)
}

/// BLAKE3-256 of the bytes, as the store names them.
#[pyfunction]
pub(crate) fn content_id(py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<String> {
    let bytes = ForeignBytes::of(data)?;
    let options = LoadOptions::default();
    let id = py.detach(|| {
        let read_at = |offset, buffer: &mut [u8]| bytes.read_at(offset, buffer);
        tetris_agent::content_id(bytes.len() as u64, &read_at, &options)
    });
    Ok(id.map_err(|error| errors::share(error.into()))?.to_string())
}
