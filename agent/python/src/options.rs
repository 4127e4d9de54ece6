//! Arguments of Python as options of a load.

use std::num::NonZeroUsize;
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tetris_agent::{Access, DEFAULT_WAIT, LoadOptions, Progress, ProgressFn};

/// How memory is mapped.
pub(crate) fn access(mode: &str) -> PyResult<Access> {
    match mode {
        "read_only" => Ok(Access::ReadOnly),
        "copy_on_write" => Ok(Access::CopyOnWrite),
        other => Err(PyValueError::new_err(format!(
            "mode must be \"copy_on_write\" or \"read_only\", found {other:?}"
        ))),
    }
}

/// The keyword arguments of a load.
pub(crate) fn load(
    mode: &str,
    prefault: bool,
    threads: Option<usize>,
    wait: Option<f64>,
    progress: Option<Py<PyAny>>,
) -> PyResult<LoadOptions> {
    let threads = match threads {
        None => None,
        Some(threads) => Some(NonZeroUsize::new(threads).ok_or_else(|| {
            PyValueError::new_err("threads must be at least 1, or None for one per core; found 0")
        })?),
    };
    let wait = match wait {
        None => DEFAULT_WAIT,
        Some(seconds) => Duration::try_from_secs_f64(seconds).map_err(|_| {
            PyValueError::new_err(format!(
                "wait must be a number of seconds from 0 on, found {seconds}"
            ))
        })?,
    };
    Ok(LoadOptions {
        access: access(mode)?,
        prefault,
        threads,
        wait,
        progress: progress.map(report_to),
        ..LoadOptions::default()
    })
}

/// Options that differ from the default in how memory is mapped alone.
pub(crate) fn mapped(mode: &str) -> PyResult<LoadOptions> {
    Ok(LoadOptions {
        access: access(mode)?,
        ..LoadOptions::default()
    })
}

fn report_to(callback: Py<PyAny>) -> ProgressFn {
    ProgressFn::new(move |Progress { done, total }| {
        Python::attach(|py| {
            // It only shows something; the load does not end because of it.
            if let Err(error) = callback.call1(py, (done, total)) {
                error.write_unraisable(py, Some(callback.bind(py)));
            }
        });
    })
}
