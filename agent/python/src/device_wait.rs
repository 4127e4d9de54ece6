//! Waiting in Python: other threads run, and Ctrl-C works.

use std::time::{Duration, Instant};

use pyo3::exceptions::PyTimeoutError;
use pyo3::prelude::*;
use tetris_agent::device::DeviceError;

use crate::{errors, options};

/// Longest time until a signal is noticed.
pub(crate) const SLICE: Duration = Duration::from_millis(100);

/// Polls `wait` until it returns true or the timeout expires.
pub(crate) fn until(
    py: Python<'_>,
    timeout: Option<f64>,
    what: &str,
    wait: impl Fn(Duration) -> Result<bool, DeviceError> + Sync,
) -> PyResult<()> {
    let limit = timeout.map(|seconds| options::time("timeout", seconds));
    let limit = limit.transpose()?;
    let begun = Instant::now();
    loop {
        let left = limit.map_or(SLICE, |limit| limit.saturating_sub(begun.elapsed()));
        if py
            .detach(|| wait(left.min(SLICE)))
            .map_err(errors::device)?
        {
            return Ok(());
        }
        py.check_signals()?;
        if left.is_zero() {
            return Err(PyTimeoutError::new_err(format!(
                "expected {what} in device memory within {} s; the mirror still copies",
                timeout.unwrap_or_default()
            )));
        }
    }
}
