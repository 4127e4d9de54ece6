//! Device memory that stays mapped for the time of a capture.

use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use tetris_agent::device;

/// Keeps the process's device memory mapped until `end` is called or this is gone.
#[pyclass(frozen, module = "tetris")]
pub(crate) struct UnmappingPause(Mutex<Option<device::UnmappingPause>>);

#[pymethods]
impl UnmappingPause {
    #[new]
    fn new() -> Self {
        Self(Mutex::new(Some(device::UnmappingPause::begin())))
    }

    /// End the pause.
    fn end(&self) {
        let pause = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(pause);
    }
}
