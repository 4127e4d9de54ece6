//! Errors of configuration files.

use std::io;
use std::path::PathBuf;

use tetris_scaler::resources::FieldProblem;
use thiserror::Error;

use super::MAX_CONFIG_BYTES;

/// A mistake in the text of a configuration file.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConfigProblem {
    /// The text is too long.
    #[error("found more than {MAX_CONFIG_BYTES} bytes, expected {MAX_CONFIG_BYTES} at most")]
    TooLong,
    /// A line that does not parse, or an unknown or missing field.
    #[error("{0}")]
    Line(String),
    /// A field out of range.
    #[error(transparent)]
    Field(#[from] FieldProblem),
}

/// The reason a configuration file is not used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The file has a mistake.
    #[error("{}: {problem}", path.display())]
    Wrong {
        /// Path of the file.
        path: PathBuf,
        /// The mistake.
        problem: ConfigProblem,
    },
}
