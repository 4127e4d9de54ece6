//! `tetris._native`: the agent for Python.
//!
//! Only what Python needs of the agent, close to its Rust shape; what users see is built on it in Python. Memory
//! crosses the border as objects with the buffer protocol and DLPack, each of which keeps its own reference to
//! the store.

#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]
#![expect(
    clippy::needless_pass_by_value,
    reason = "PyO3 hands arguments over by value"
)]

mod agent;
mod buffer;
mod device;
mod device_bits;
mod device_export;
mod device_model;
mod device_prefetch;
mod device_tensor;
mod device_wait;
mod dlpack;
mod doctor;
mod errors;
mod file;
mod foreign_bytes;
mod layout;
mod logging;
mod memory;
mod model;
mod options;
mod pagemap;
mod registry;
mod report;
mod tensor;
mod trace_parent;
mod unmapping;

/// The native module.
#[pyo3::pymodule]
mod _native {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::agent::{Agent, content_id, create_store};
    #[pymodule_export]
    use crate::device::DeviceRegistry;
    #[pymodule_export]
    use crate::device_bits::DeviceBits;
    #[pymodule_export]
    use crate::device_model::DeviceModel;
    #[pymodule_export]
    use crate::device_prefetch::Prefetch;
    #[pymodule_export]
    use crate::device_tensor::DeviceTensor;
    #[pymodule_export]
    use crate::doctor::diagnose;
    #[pymodule_export]
    use crate::file::File;
    #[pymodule_export]
    use crate::layout::Layout;
    #[pymodule_export]
    use crate::memory::{Memory, SharedFile};
    #[pymodule_export]
    use crate::model::Model;
    #[pymodule_export]
    use crate::registry::{has_mapped, is_unmodified, unmodified_id, unmodified_object};
    #[pymodule_export]
    use crate::tensor::Tensor;
    #[pymodule_export]
    use crate::trace_parent::trace_parent;
    #[pymodule_export]
    use crate::unmapping::UnmappingPause;

    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) {
        tetris_agent::Words::Python.set_for_process();
        crate::logging::install(module.py());
        crate::trace_parent::install();
    }
}
