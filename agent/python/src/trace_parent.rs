//! The span of OpenTelemetry that a thread of Python is in, for the traces of the node daemon.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

/// The span that loads of this thread tell the node daemon, as the value of a header `traceparent`.
#[pyfunction]
pub(crate) fn trace_parent(py: Python<'_>) -> Option<String> {
    py.detach(tetris_agent::trace_parent)
}

/// Has loads tell the daemon the span that they are in.
pub(crate) fn install() {
    tetris_agent::set_trace_source(|| {
        Python::try_attach(|py| current(py).ok().flatten()).flatten()
    });
}

/// The value of a header `traceparent` for the current span. `None` where the program has not imported OpenTelemetry, or the
/// thread is in no span.
fn current(py: Python<'_>) -> PyResult<Option<String>> {
    let modules = py.import("sys")?.getattr("modules")?;
    let trace = modules.call_method1("get", ("opentelemetry.trace",))?;
    if trace.is_none() {
        return Ok(None);
    }
    let span = trace.call_method0("get_current_span")?;
    let context = span.call_method0("get_span_context")?;
    if !context.getattr("is_valid")?.extract::<bool>()? {
        return Ok(None);
    }
    let trace: u128 = context.getattr("trace_id")?.extract()?;
    let span: u64 = context.getattr("span_id")?.extract()?;
    let flags: i64 = context.getattr("trace_flags")?.extract()?;
    let flags = u8::try_from(flags).map_err(|_| PyTypeError::new_err("flags of a trace"))?;
    Ok(Some(format!("00-{trace:032x}-{span:016x}-{flags:02x}")))
}
