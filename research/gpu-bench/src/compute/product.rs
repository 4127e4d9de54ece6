//! One product with checked operands.

use std::ops::Range;

use super::{ComputeError, Matrix, Vector};
use tetris_gpu_device::Mapped;

/// `output = matrix * input`, or `output += matrix * input`.
#[derive(Debug)]
pub struct Product<'a, M> {
    pub(super) matrix: Matrix<'a, M>,
    pub(super) input: &'a Vector<M>,
    pub(super) output: &'a Vector<M>,
    pub(super) accumulate: bool,
}

impl<'a, M: Mapped> Product<'a, M> {
    /// Creates `output = matrix * input`.
    ///
    /// # Errors
    ///
    /// [`ComputeError`] if a vector's length does not fit the matrix, or the output overlaps an
    /// operand.
    pub fn try_new(
        matrix: Matrix<'a, M>,
        input: &'a Vector<M>,
        output: &'a Vector<M>,
    ) -> Result<Self, ComputeError> {
        let fits = |what, expected, found| {
            let (rows, columns) = (matrix.rows, matrix.columns);
            if expected == found {
                return Ok(());
            }
            Err(ComputeError::Shape {
                what,
                expected,
                found,
                rows,
                columns,
            })
        };
        fits("input", matrix.columns, input.len)?;
        fits("output", matrix.rows, output.len)?;
        // A row finished early would overwrite operands that other rows still read.
        let read = [matrix.range(), input.range()];
        if read.iter().any(|read| overlap(read, &output.range())) {
            return Err(ComputeError::Overlap);
        }
        Ok(Self {
            matrix,
            input,
            output,
            accumulate: false,
        })
    }

    /// Returns the product as `output += matrix * input`.
    pub fn added(self) -> Self {
        Self {
            accumulate: true,
            ..self
        }
    }
}

fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}
