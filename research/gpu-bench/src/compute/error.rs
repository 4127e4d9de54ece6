//! Errors of products.

use thiserror::Error;

use tetris_gpu_device::MemoryError;

/// The reason a product failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ComputeError {
    /// A side is zero or too long.
    #[error("expected {what} of 1 to {most} elements, found {found}; choose another shape")]
    Side {
        /// The side: `rows`, `columns` or `a vector`.
        what: &'static str,
        /// Maximum length, in elements.
        most: u32,
        /// Its length, in elements.
        found: u32,
    },
    /// An address is not aligned for the elements.
    #[error(
        "expected {what} at a multiple of {align_bytes} bytes, found it at {address:#x}; align it"
    )]
    Alignment {
        /// The matrix or vector at the address.
        what: &'static str,
        /// Length of an element, in bytes.
        align_bytes: u64,
        /// The device address.
        address: u64,
    },
    /// A vector does not fit the matrix.
    #[error(
        "expected a vector of {expected} elements as the {what} of a matrix of {rows} rows and {columns} columns, found {found}; pass {expected} elements"
    )]
    Shape {
        /// `input` or `output`.
        what: &'static str,
        /// Length of a fitting vector, in elements.
        expected: u32,
        /// Length of this vector, in elements.
        found: u32,
        /// Number of rows of the matrix.
        rows: u32,
        /// Number of columns of the matrix.
        columns: u32,
    },
    /// The output overlaps the matrix or the input.
    #[error(
        "expected an output apart from the matrix and the input, found one that overlaps them; use separate memory"
    )]
    Overlap,
    /// Device memory, a copy or a kernel failed.
    #[error(transparent)]
    Memory(#[from] MemoryError),
}
