//! Bytes of a Python object, read without the interpreter's lock.
#![expect(
    unsafe_code,
    reason = "memory of other Python objects is behind raw pointers"
)]

use std::num::NonZeroUsize;

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::PyMemoryView;

/// A contiguous buffer of a Python object, which stays where it is while this value lives.
///
/// Others may write to it meanwhile, as to any memory of Python; what is read then is some mixture, and
/// nothing here relies on reading the same twice.
pub(crate) struct ForeignBytes {
    /// Keeps the object's memory exported: it is neither freed nor moved (PEP 3118).
    _buffer: PyUntypedBuffer,
    /// Exposed by `of`.
    address: NonZeroUsize,
    len: usize,
}

impl ForeignBytes {
    pub(crate) fn of(data: &Bound<'_, PyAny>) -> PyResult<Self> {
        // A view of it has shape and strides even where the object leaves them out, as ctypes does.
        let view = PyMemoryView::from(data)?;
        let buffer = PyUntypedBuffer::get(&view)?;
        if !buffer.is_c_contiguous() {
            return Err(PyBufferError::new_err(
                "expected C-contiguous memory, found strides; make a contiguous copy",
            ));
        }
        let len = buffer.len_bytes();
        let address = NonZeroUsize::new(buffer.buf_ptr().expose_provenance());
        let address = match address {
            Some(address) => address,
            None if len == 0 => NonZeroUsize::MIN,
            None => return Err(PyBufferError::new_err("the buffer has no memory")),
        };
        Ok(Self {
            _buffer: buffer,
            address,
            len,
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Fills `target` with the bytes at `offset`; what lies beyond the end is left as it is.
    pub(crate) fn read_at(&self, offset: u64, target: &mut [u8]) {
        let begin = usize::try_from(offset).unwrap_or(usize::MAX).min(self.len);
        let len = target.len().min(self.len - begin);
        let source = std::ptr::with_exposed_provenance::<u8>(self.address.get() + begin);
        // SAFETY: the buffer is exported while `self` lives, so `begin..begin + len`, which is within its
        // length, is readable memory; `target` is ours alone, so they do not overlap. A concurrent writer
        // would be a data race in Rust's terms; the copy is a plain memcpy of bytes, for which any value
        // is valid, and the result is used as whatever was read.
        unsafe { std::ptr::copy_nonoverlapping(source, target.as_mut_ptr(), len) };
    }

    pub(crate) fn to_vec(&self) -> PyResult<Vec<u8>> {
        let mut bytes = Vec::new();
        bytes
            .try_reserve_exact(self.len)
            .map_err(|_| pyo3::exceptions::PyMemoryError::new_err("no memory for the bytes"))?;
        bytes.resize(self.len, 0);
        self.read_at(0, &mut bytes);
        Ok(bytes)
    }
}
