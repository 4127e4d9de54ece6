//! The buffer protocol (PEP 3118).
#![expect(unsafe_code, reason = "the buffer protocol is a C structure")]

use std::ffi::{CStr, c_int};
use std::num::NonZeroUsize;
use std::ptr;

use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use tetris_store_layout::Dtype;

/// Element type, shape and strides as the protocol wants them.
pub(crate) struct Layout {
    format: &'static CStr,
    itemsize: isize,
    shape: Vec<isize>,
    strides: Vec<isize>,
}

/// Memory that is handed out.
pub(crate) struct Exported<'a> {
    pub(crate) address: NonZeroUsize,
    pub(crate) len: usize,
    pub(crate) writable: bool,
    /// Without one, the memory is bytes.
    pub(crate) layout: Option<&'a Layout>,
}

impl Layout {
    /// `None` for element types that the protocol has no letter for.
    pub(crate) fn of(dtype: Dtype, shape: &[u64]) -> Option<Self> {
        let format = format(dtype)?;
        let itemsize = isize::try_from(dtype.bits() / 8).ok()?;
        let shape = shape
            .iter()
            .map(|&dim| isize::try_from(dim).ok())
            .collect::<Option<Vec<_>>>()?;
        let mut strides = vec![0; shape.len()];
        let mut step = itemsize;
        for (stride, &dim) in strides.iter_mut().zip(&shape).rev() {
            *stride = step;
            step = step.checked_mul(dim.max(1))?;
        }
        Some(Self {
            format,
            itemsize,
            shape,
            strides,
        })
    }
}

impl Layout {
    /// Returns true if the elements would be at the same places in column-major order.
    fn is_column_major(&self) -> bool {
        let long = self.shape.iter().filter(|&&dim| dim != 1).count();
        long <= 1 || self.shape.contains(&0)
    }
}

/// The letter of the module `struct`, native size and order.
fn format(dtype: Dtype) -> Option<&'static CStr> {
    Some(match dtype {
        Dtype::Bool => c"?",
        Dtype::U8 => c"B",
        Dtype::I8 => c"b",
        Dtype::U16 => c"H",
        Dtype::I16 => c"h",
        Dtype::U32 => c"I",
        Dtype::I32 => c"i",
        Dtype::U64 => c"Q",
        Dtype::I64 => c"q",
        Dtype::F16 => c"e",
        Dtype::F32 => c"f",
        Dtype::F64 => c"d",
        Dtype::C64 => c"Zf",
        _ => return None,
    })
}

/// Fills the view that the interpreter asks for.
///
/// # Safety
/// `view` is null or points to a `Py_buffer` that may be written; `exported` describes memory and a layout that
/// stay what they are while `owner` lives.
pub(crate) unsafe fn fill(
    view: *mut ffi::Py_buffer,
    flags: c_int,
    exported: &Exported<'_>,
    owner: Bound<'_, PyAny>,
) -> PyResult<()> {
    // SAFETY: guaranteed by the caller.
    let Some(view) = (unsafe { view.as_mut() }) else {
        return Err(PyBufferError::new_err("there is no view to fill"));
    };
    view.obj = ptr::null_mut();
    let wanted = |flag: c_int| flags & flag == flag;
    if wanted(ffi::PyBUF_WRITABLE) && !exported.writable {
        return Err(PyBufferError::new_err(
            "expected writable memory, found memory that is mapped read-only; load with mode=\"copy_on_write\"",
        ));
    }
    if wanted(ffi::PyBUF_F_CONTIGUOUS)
        && exported
            .layout
            .is_some_and(|layout| !layout.is_column_major())
    {
        return Err(PyBufferError::new_err(
            "expected column-major memory, found row-major memory; ask for another order, or make a copy",
        ));
    }
    view.buf = ptr::with_exposed_provenance_mut(exported.address.get());
    view.len = exported.len.cast_signed();
    view.readonly = c_int::from(!exported.writable);
    view.suboffsets = ptr::null_mut();
    view.internal = ptr::null_mut();
    view.format = ptr::null_mut();
    view.shape = ptr::null_mut();
    view.strides = ptr::null_mut();
    if let Some(layout) = exported.layout {
        view.itemsize = layout.itemsize;
        view.ndim = c_int::try_from(layout.shape.len()).unwrap_or(c_int::MAX);
        if wanted(ffi::PyBUF_FORMAT) {
            view.format = layout.format.as_ptr().cast_mut();
        }
        if wanted(ffi::PyBUF_ND) {
            view.shape = layout.shape.as_ptr().cast_mut();
        }
        if wanted(ffi::PyBUF_STRIDES) {
            view.strides = layout.strides.as_ptr().cast_mut();
        }
    } else {
        view.itemsize = 1;
        view.ndim = 1;
        if wanted(ffi::PyBUF_FORMAT) {
            view.format = c"B".as_ptr().cast_mut();
        }
        if wanted(ffi::PyBUF_ND) {
            view.shape = &raw mut view.len;
        }
        if wanted(ffi::PyBUF_STRIDES) {
            view.strides = &raw mut view.itemsize;
        }
    }
    view.obj = owner.into_ptr();
    Ok(())
}
