//! Report of a load, as a dictionary.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use tetris_agent::{LoadReport, PrivateCause, Recognized, Words};

pub(crate) fn to_dict<'py>(py: Python<'py>, report: &LoadReport) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    let recognized: Vec<_> = report
        .recognized
        .iter()
        .map(|how| Recognized::name(*how))
        .collect();
    dict.set_item("recognized", recognized)?;
    dict.set_item("tensors", report.tensors)?;
    dict.set_item("objects", report.objects)?;
    dict.set_item("bytes_shared", report.bytes_shared)?;
    dict.set_item("bytes_new", report.bytes_new)?;
    dict.set_item("bytes_private", report.bytes_private)?;
    dict.set_item("bytes_unshared", report.bytes_unshared)?;
    dict.set_item("bytes_read", report.bytes_read)?;
    dict.set_item("bytes_of_other_files", report.bytes_of_other_files)?;
    dict.set_item("private_reason", report.private_reason.as_deref())?;
    let cause = report.private_cause.map(PrivateCause::code);
    dict.set_item("private_cause", cause)?;
    dict.set_item("private_remedy", report.remedy(Words::Python))?;
    dict.set_item("seconds", report.duration.as_secs_f64())?;
    Ok(dict)
}
