//! What is wrong with a number that was given.

use thiserror::Error;

/// A field is out of its range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("`{field}` is {value}, must be from {min} to {max}")]
pub struct FieldError {
    /// The field's name, with its unit as suffix.
    pub field: &'static str,
    /// What it was.
    pub value: u64,
    /// The least allowed.
    pub min: u64,
    /// The most allowed.
    pub max: u64,
}

impl FieldError {
    /// `value` if it lies within `min..=max`.
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
