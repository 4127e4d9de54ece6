//! Error of a configuration field, for every module that checks its own table.

use std::fmt::Display;

use thiserror::Error;

/// A configuration field has a value outside its range.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("configuration field `{field}`: expected {expected}, found {found}")]
#[non_exhaustive]
pub struct FieldError {
    /// The field, from the root.
    pub field: String,
    /// Its permitted values.
    pub expected: String,
    /// Its value.
    pub found: String,
}

impl FieldError {
    pub(crate) fn new(field: &str, expected: impl Display, found: impl Display) -> Self {
        Self {
            field: field.to_owned(),
            expected: expected.to_string(),
            found: found.to_string(),
        }
    }
}
