//! Diagnosis of the store, of models and of processes, with what Python knows of its interpreter.

use std::ffi::OsString;
use std::path::PathBuf;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tetris_agent::store_location::{STORE_ENV, StoreLocation};
use tetris_cli::doctor::{self, Section, Subjects};

use crate::options;

/// Diagnose the store, this machine, models and a process; `section` is added, in JSON. Returns the diagnosis as
/// JSON and as text, and the exit code of its status.
#[pyfunction]
#[pyo3(signature = (models, *, store=None, pid=None, section=None))]
pub(crate) fn diagnose(
    py: Python<'_>,
    models: Vec<PathBuf>,
    store: Option<OsString>,
    pid: Option<u32>,
    section: Option<&str>,
) -> PyResult<(String, String, u8)> {
    let invalid = |error: &dyn std::fmt::Display| PyValueError::new_err(error.to_string());
    let section = section.map(Section::from_json).transpose();
    let section = section.map_err(|error| invalid(&error))?;
    let subjects = Subjects::default()
        .with_models(models)
        .with_pid(pid)
        .with_min_shared_bytes(options::min_shared_bytes());
    let mut diagnosis = py.detach(|| {
        let location = StoreLocation::new(store.or_else(|| std::env::var_os(STORE_ENV)));
        doctor::diagnose(&location, &subjects)
    });
    diagnosis.sections.extend(section);
    let text = doctor::render(&diagnosis, |_, text| text.to_owned());
    let json = diagnosis.to_json().map_err(|error| invalid(&error))?;
    Ok((json, text, diagnosis.status().exit_code()))
}
