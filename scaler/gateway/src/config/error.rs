//! Errors of configuration files.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

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
        /// The mistake, with its line or field.
        problem: String,
    },
}
