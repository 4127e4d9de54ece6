//! Matrices and vectors in mapped device memory.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::ComputeError;
use tetris_gpu_device::{Mapped, MemoryError, Protection, check_inside};

/// Maximum length of a side, in elements: kernels count in 32 bits, in steps of 32.
pub const MAX_SIDE: u32 = i32::MAX as u32;

/// The type of a matrix's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Element {
    /// IEEE 754 single precision, little-endian.
    F32,
    /// The upper half of an [`Element::F32`], little-endian.
    Bf16,
}

impl Element {
    /// Length of an element, in bytes.
    pub const fn bytes(self) -> u64 {
        match self {
            Self::F32 => 4,
            Self::Bf16 => 2,
        }
    }
}

impl fmt::Display for Element {
    /// Formats the name that safetensors files use.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F32 => "F32",
            Self::Bf16 => "BF16",
        })
    }
}

/// A row-major matrix without gaps.
#[derive(Debug)]
pub struct Matrix<'a, M> {
    pub(super) mapping: &'a M,
    pub(super) offset: u64,
    pub(super) rows: u32,
    pub(super) columns: u32,
    pub(super) element: Element,
}

impl<M> Clone for Matrix<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for Matrix<'_, M> {}

impl<'a, M: Mapped> Matrix<'a, M> {
    /// Creates a matrix that starts `offset` bytes into `mapping`.
    ///
    /// # Errors
    ///
    /// [`ComputeError`] if a side is out of range, the matrix does not lie inside the mapping, or
    /// its address is not aligned.
    pub fn try_new(
        mapping: &'a M,
        offset: u64,
        rows: u32,
        columns: u32,
        element: Element,
    ) -> Result<Self, ComputeError> {
        check_side("rows", rows)?;
        check_side("columns", columns)?;
        let bytes = u64::from(rows)
            .checked_mul(u64::from(columns))
            .and_then(|elements| elements.checked_mul(element.bytes()));
        check_inside(offset, bytes.unwrap_or(u64::MAX), mapping.bytes())?;
        let matrix = Self {
            mapping,
            offset,
            rows,
            columns,
            element,
        };
        check_alignment("a matrix", matrix.address(), element.bytes())?;
        Ok(matrix)
    }

    /// Its length in bytes.
    pub fn bytes(&self) -> u64 {
        u64::from(self.rows) * u64::from(self.columns) * self.element.bytes()
    }

    /// Device address of its first byte.
    pub(super) fn address(&self) -> u64 {
        self.mapping.address() + self.offset
    }

    pub(super) fn range(&self) -> Range<u64> {
        self.address()..self.address() + self.bytes()
    }
}

/// A vector of f32 in writable device memory.
#[derive(Debug)]
pub struct Vector<M> {
    pub(super) mapping: Arc<M>,
    pub(super) offset: u64,
    pub(super) len: u32,
}

impl<M: Mapped> Vector<M> {
    /// Creates a vector of `len` elements that starts `offset` bytes into `mapping`.
    ///
    /// # Errors
    ///
    /// [`ComputeError`] if the length is out of range, the mapping is read-only or too short, or
    /// the address is not aligned.
    pub fn try_new(mapping: Arc<M>, offset: u64, len: u32) -> Result<Self, ComputeError> {
        check_side("a vector", len)?;
        if mapping.protection() == Protection::ReadOnly {
            return Err(MemoryError::ReadOnly.into());
        }
        check_inside(offset, u64::from(len) * 4, mapping.bytes())?;
        check_alignment("a vector", mapping.address() + offset, 4)?;
        Ok(Self {
            mapping,
            offset,
            len,
        })
    }

    /// Number of elements.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Returns true if it has no elements; a vector always has some.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns its first `len` elements.
    pub fn first(&self, len: u32) -> Result<Self, ComputeError> {
        check_inside(0, u64::from(len) * 4, u64::from(self.len) * 4)?;
        Self::try_new(Arc::clone(&self.mapping), self.offset, len)
    }

    pub(super) fn address(&self) -> u64 {
        self.mapping.address() + self.offset
    }

    pub(super) fn range(&self) -> Range<u64> {
        self.address()..self.address() + u64::from(self.len) * 4
    }
}

fn check_side(what: &'static str, found: u32) -> Result<(), ComputeError> {
    if (1..=MAX_SIDE).contains(&found) {
        return Ok(());
    }
    Err(ComputeError::Side {
        what,
        most: MAX_SIDE,
        found,
    })
}

fn check_alignment(what: &'static str, address: u64, align_bytes: u64) -> Result<(), ComputeError> {
    if address.is_multiple_of(align_bytes) {
        return Ok(());
    }
    Err(ComputeError::Alignment {
        what,
        align_bytes,
        address,
    })
}
