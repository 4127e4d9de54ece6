//! Arguments of Python as options of a load.

use std::ffi::{OsStr, OsString};
use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tetris_agent::{
    Access, DEFAULT_MIN_SHARED_BYTES, DEFAULT_WAIT, LoadOptions, Progress, ProgressFn,
};

use crate::logging::LOGGER;

/// Names the smallest file in bytes loaded through the store.
const MIN_SHARED_ENV: &str = "TETRIS_MIN_SHARED_BYTES";

/// Returns true if Python may write to memory.
///
/// It is mapped copy-on-write in any case. Consumers such as torch take no notice of a buffer that is read-only, and
/// a write to pages that really are would end the interpreter; so it costs pages of this process's own.
pub(crate) fn is_read_only(mode: &str) -> PyResult<bool> {
    match mode {
        "read_only" => Ok(true),
        "copy_on_write" => Ok(false),
        other => Err(PyValueError::new_err(format!(
            "mode must be \"copy_on_write\" or \"read_only\", found {other:?}"
        ))),
    }
}

/// The smallest file that is shared, from the environment, or else the default.
pub(crate) fn min_shared_bytes() -> u64 {
    let Some(named) = std::env::var_os(MIN_SHARED_ENV).filter(|named| !named.is_empty()) else {
        return DEFAULT_MIN_SHARED_BYTES;
    };
    let bytes = named.to_str().and_then(|text| text.parse().ok());
    bytes.unwrap_or_else(|| {
        tell_once(&named);
        DEFAULT_MIN_SHARED_BYTES
    })
}

/// Warns of a value that is no number. Without a store, an agent is made once in a second.
fn tell_once(value: &OsStr) {
    static TOLD: Mutex<Option<OsString>> = Mutex::new(None);
    let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
    let before = told.replace(value.to_owned());
    // A handler of the log may come here again.
    drop(told);
    if before.as_deref() != Some(value) {
        let value_text = value.to_string_lossy();
        log::warn!(
            target: LOGGER,
            "{MIN_SHARED_ENV} has no effect: expected a number of bytes such as 65536, found '{value_text}'"
        );
    }
}

/// The keyword arguments of a load.
pub(crate) fn load(
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
        Some(seconds) => time("wait", seconds)?,
    };
    Ok(default()
        .with_prefault(prefault)
        .with_threads(threads)
        .with_wait(wait)
        .with_progress(progress.map(report_to)))
}

/// A time in seconds.
pub(crate) fn time(name: &str, seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds).map_err(|_| {
        PyValueError::new_err(format!(
            "{name} must be a number of seconds from 0 on, found {seconds}"
        ))
    })
}

/// Options without arguments.
pub(crate) fn default() -> LoadOptions {
    LoadOptions::default().with_access(Access::CopyOnWrite)
}

fn report_to(callback: Py<PyAny>) -> ProgressFn {
    ProgressFn::new(move |Progress { done, total, .. }| {
        Python::attach(|py| {
            // It only shows something; the load does not end because of it.
            if let Err(error) = callback.call1(py, (done, total)) {
                error.write_unraisable(py, Some(callback.bind(py)));
            }
        });
    })
}
