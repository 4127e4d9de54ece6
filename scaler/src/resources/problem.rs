//! An invalid field of a resource.

use serde::de::DeserializeOwned;
use thiserror::Error;

/// An invalid field of a resource.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{field}`: {problem}")]
pub struct FieldProblem {
    /// Path of the field in the resource, e.g. `spec.slo.latencyMillis`.
    pub field: String,
    /// The value found, the values expected, and the next step.
    pub problem: String,
}

impl FieldProblem {
    /// Creates a problem of `field`.
    pub fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            problem: problem.into(),
        }
    }

    /// Returns `value` if it lies within `min..=max`.
    pub(super) fn check(
        field: impl Into<String>,
        value: u64,
        min: u64,
        max: u64,
    ) -> Result<u64, Self> {
        if (min..=max).contains(&value) {
            return Ok(value);
        }
        let problem = format!("found {value}, expected {min} to {max}");
        Err(Self::new(field, problem))
    }

    /// Returns `text` if it has 1 to `most` bytes.
    pub(super) fn check_text(
        field: impl Into<String>,
        text: &str,
        most: usize,
    ) -> Result<(), Self> {
        if !text.is_empty() && text.len() <= most {
            return Ok(());
        }
        let problem = format!("found {} bytes, expected 1 to {most}", text.len());
        Err(Self::new(field, problem))
    }
}

/// Parses a resource, or a part of one, from a JSON or YAML document.
///
/// # Errors
///
/// The path of the field that does not parse, and the reason.
pub fn parse<T: DeserializeOwned>(document: serde_json::Value) -> Result<T, FieldProblem> {
    serde_path_to_error::deserialize(document).map_err(|error| {
        let field = error.path().to_string();
        // Serde quotes the value found, which may be long.
        let problem = error.into_inner().to_string();
        FieldProblem::new(field, problem.chars().take(256).collect::<String>())
    })
}
