//! Layouts: tensors that an engine makes of a model, over memory that is shared.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use tetris_agent::{
    AttachedLayout, Dtype, LayoutKey, LayoutParts, Origin, PlacedTensor, Region, Store, TensorId,
};

use crate::memory::Memory;

/// Name, element type, shape, strides in elements, memory, offset in bytes, index of the tensor that it is an alias of.
type Part = (
    String,
    String,
    Vec<u64>,
    Vec<u64>,
    Option<Py<Memory>>,
    u64,
    Option<u32>,
);

/// The result of a build: tensors, and attributes.
pub(crate) type Built = (Vec<Part>, BTreeMap<String, Vec<u8>>);

/// Tensors and attributes that one process of the node made, and the references to them.
#[pyclass(frozen, module = "tetris")]
pub(crate) struct Layout {
    tensors: Py<PyList>,
    attributes: Py<PyDict>,
    origin: Origin,
    private_reason: Option<String>,
    _attached: AttachedLayout,
}

/// The key of a layout.
pub(crate) fn key(
    transform: &str,
    version: u32,
    sources: BTreeMap<String, String>,
    conditions: BTreeMap<String, String>,
) -> PyResult<LayoutKey> {
    let mut key = LayoutKey::new(transform, version);
    for (name, id) in sources {
        let id = TensorId::from_str(&id)
            .map_err(|error| PyValueError::new_err(format!("source {name:?}: {error}")))?;
        key = key.with_source(name, id);
    }
    for (name, value) in conditions {
        key = key.with_condition(name, value);
    }
    Ok(key)
}

/// The parts that a build returned.
pub(crate) fn parts((tensors, attributes): Built) -> PyResult<LayoutParts> {
    let placed = |part: Part| {
        let (name, dtype, shape, strides, memory, offset, alias) = part;
        let unknown = || PyValueError::new_err(format!("tensor {name:?}: unknown dtype {dtype:?}"));
        Ok(PlacedTensor {
            dtype: Dtype::from_name(&dtype).ok_or_else(unknown)?,
            name,
            shape,
            strides,
            region: memory.map(|memory| Arc::clone(memory.get().region())),
            offset,
            alias,
        })
    };
    let tensors = tensors.into_iter().map(placed).collect::<PyResult<_>>()?;
    Ok(LayoutParts {
        tensors,
        attributes,
    })
}

impl Layout {
    pub(crate) fn new(
        py: Python<'_>,
        store: Option<&Store>,
        attached: AttachedLayout,
        read_only: bool,
    ) -> PyResult<Self> {
        let (tensors, attributes) = (PyList::empty(py), PyDict::new(py));
        // Tensors in one object have one memory.
        let mut memories: BTreeMap<usize, Py<Memory>> = BTreeMap::new();
        for tensor in &attached.parts().tensors {
            let memory = match &tensor.region {
                None => None,
                Some(region) => Some(memory(py, store, region, read_only, &mut memories)?),
            };
            let part = (
                &tensor.name,
                tensor.dtype.name(),
                &tensor.shape,
                &tensor.strides,
                memory,
                tensor.offset,
                tensor.alias,
            );
            tensors.append(part)?;
        }
        for (key, value) in &attached.parts().attributes {
            attributes.set_item(key, PyBytes::new(py, value))?;
        }
        Ok(Self {
            tensors: tensors.unbind(),
            attributes: attributes.unbind(),
            origin: attached.origin(),
            private_reason: attached.private_reason().map(str::to_owned),
            _attached: attached,
        })
    }
}

fn memory(
    py: Python<'_>,
    store: Option<&Store>,
    region: &Arc<Region>,
    read_only: bool,
    memories: &mut BTreeMap<usize, Py<Memory>>,
) -> PyResult<Py<Memory>> {
    let address = Arc::as_ptr(region).addr();
    if let Some(known) = memories.get(&address) {
        return Ok(known.clone_ref(py));
    }
    let new = Py::new(py, Memory::new(store, Arc::clone(region), read_only, None))?;
    memories.insert(address, new.clone_ref(py));
    Ok(new)
}

#[pymethods]
impl Layout {
    /// The tensors, in the order of the build.
    #[getter]
    fn tensors(&self, py: Python<'_>) -> Py<PyList> {
        self.tensors.clone_ref(py)
    }

    /// The attributes by key.
    #[getter]
    fn attributes(&self, py: Python<'_>) -> Py<PyDict> {
        self.attributes.clone_ref(py)
    }

    /// "shared" if it was found, "new" if this process made it, "private" if others cannot find it.
    #[getter]
    fn origin(&self) -> &'static str {
        self.origin.name()
    }

    /// The reason that others cannot find it, if they cannot.
    #[getter]
    fn private_reason(&self) -> Option<&str> {
        self.private_reason.as_deref()
    }
}
