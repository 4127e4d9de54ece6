//! Errors of a configuration.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use tetris_reclaimer_core::PolicyError;
use thiserror::Error;

use crate::field_error::FieldError;

/// A configuration cannot be used. The one in force, if any, stays.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read configuration `{}`: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        source: std::io::Error,
    },
    /// It is not TOML.
    #[error("configuration `{}`: {message}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Line, column and mistake.
        message: String,
    },
    /// A field is unknown, missing, or of another type.
    #[error("configuration `{}`, field `{field}`: {message}", path.display())]
    Field {
        /// The file.
        path: PathBuf,
        /// The field, from the root.
        field: String,
        /// The mistake.
        message: String,
    },
    /// A field has a value outside its range.
    #[error(transparent)]
    Value(#[from] FieldError),
}

impl ConfigError {
    pub(crate) fn syntax(path: &Path, message: &str) -> Self {
        Self::Syntax {
            path: path.to_owned(),
            message: message.trim_end().to_owned(),
        }
    }

    pub(crate) fn field(path: &Path, field: &str, message: &str) -> Self {
        Self::Field {
            path: path.to_owned(),
            field: field.to_owned(),
            message: message.to_owned(),
        }
    }

    pub(crate) fn value(field: &str, expected: impl Display, found: impl Display) -> Self {
        Self::Value(FieldError::new(field, expected, found))
    }

    pub(crate) fn policy(error: PolicyError) -> Self {
        let field = format!("policy.{}", error.field);
        Self::value(&field, error.expected, error.found)
    }
}
