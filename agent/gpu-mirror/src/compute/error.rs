//! Why nothing was multiplied.

use thiserror::Error;

use crate::memory::MemoryError;

/// Why nothing was multiplied.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ComputeError {
    /// A side that is zero or too long.
    #[error("expected {what} of 1 to {most} elements, found {found}; choose another shape")]
    Side {
        /// Which side.
        what: &'static str,
        /// The longest there is.
        most: u32,
        /// Its length.
        found: u32,
    },
    /// An address that the device cannot read elements from.
    #[error(
        "expected {what} at a multiple of {align_bytes} bytes, found it at {address:#x}; put it elsewhere"
    )]
    Alignment {
        /// What lies there.
        what: &'static str,
        /// Length of an element.
        align_bytes: u64,
        /// The device address.
        address: u64,
    },
    /// A vector that does not fit the matrix.
    #[error(
        "expected a vector of {expected} elements as the {what} of a matrix of {rows} rows and {columns} columns, found {found}; take as many elements"
    )]
    Shape {
        /// `input` or `output`.
        what: &'static str,
        /// What would fit.
        expected: u32,
        /// The vector's length.
        found: u32,
        /// The matrix's rows.
        rows: u32,
        /// The matrix's columns.
        columns: u32,
    },
    /// An output that lies over what is read.
    #[error(
        "expected an output apart from the matrix and the input, found it over one of them; give it memory of its own"
    )]
    Overlap,
    /// Device memory, a copy or a kernel failed.
    #[error(transparent)]
    Memory(#[from] MemoryError),
}
