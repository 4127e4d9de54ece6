//! Error of a number out of range.

use thiserror::Error;

/// A field out of its range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("`{field}` is {value}, expected {min} to {max}")]
pub struct FieldError {
    /// Name of the field, with its unit as suffix.
    pub field: &'static str,
    /// Value given.
    pub value: u64,
    /// Minimum.
    pub min: u64,
    /// Maximum.
    pub max: u64,
}

impl FieldError {
    /// Returns `value` if it lies within `min..=max`.
    pub(crate) fn check(
        field: &'static str,
        value: u64,
        min: u64,
        max: u64,
    ) -> Result<u64, FieldError> {
        if (min..=max).contains(&value) {
            Ok(value)
        } else {
            Err(FieldError {
                field,
                value,
                min,
                max,
            })
        }
    }
}
