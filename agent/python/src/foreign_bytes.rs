//! Bytes of a Python object, read without the interpreter's lock.
#![expect(
    unsafe_code,
    reason = "memory of other Python objects is behind raw pointers"
)]

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::PyMemoryView;

/// A contiguous buffer of a Python object, which stays where it is while this value lives.
///
/// Others may write to it meanwhile, as to any memory of Python, so each read is atomic; what is read then is
/// some mixture of words, and nothing here relies on reading the same twice.
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
        if let Some(target) = target.get_mut(..len) {
            // SAFETY: the buffer is exported while `self` lives, so `begin..begin + len`, which is within its length, is
            // readable memory, whose provenance `of` exposed.
            unsafe { copy(self.address.get() + begin, target) };
        }
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

/// Fills `target` with the bytes from an address: word by word, and byte by byte at both ends, since others may write
/// to them meanwhile.
///
/// # Safety
/// From `address` on there is readable memory as long as `target`, whose provenance is exposed. Nothing in Rust writes to
/// it meanwhile, other than by atomic operations.
pub(crate) unsafe fn copy(address: usize, target: &mut [u8]) {
    let head = address.wrapping_neg() % size_of::<u64>();
    let (head, rest) = target.split_at_mut(head.min(target.len()));
    let (words, tail) = rest.as_chunks_mut::<{ size_of::<u64>() }>();
    let mut at = address;
    for byte in head {
        // SAFETY: within the caller's memory.
        *byte = unsafe { load_byte(at) };
        at += 1;
    }
    for word in words {
        // SAFETY: within the caller's memory, and the head ends where words are aligned.
        let value = unsafe { load_word(at) };
        // In the order of memory.
        *word = u64::from_le(value).to_le_bytes();
        at += size_of::<u64>();
    }
    for byte in tail {
        // SAFETY: within the caller's memory.
        *byte = unsafe { load_byte(at) };
        at += 1;
    }
}

/// Loads a byte.
///
/// # Safety
/// As [`copy`] of one byte.
unsafe fn load_byte(address: usize) -> u8 {
    let byte = std::ptr::with_exposed_provenance_mut(address);
    // SAFETY: it is readable, and a relaxed load does not write, so read-only memory will do.
    let byte = unsafe { AtomicU8::from_ptr(byte) };
    byte.load(Ordering::Relaxed)
}

/// Loads a word.
///
/// # Safety
/// As [`copy`] of eight bytes; the address is a multiple of their number.
unsafe fn load_word(address: usize) -> u64 {
    let word = std::ptr::with_exposed_provenance_mut(address);
    // SAFETY: it is readable and aligned, and a relaxed load does not write, so read-only memory will do.
    let word = unsafe { AtomicU64::from_ptr(word) };
    word.load(Ordering::Relaxed)
}
