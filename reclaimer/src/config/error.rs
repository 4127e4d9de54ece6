//! Errors of a configuration.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;
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
    /// It has mistakes: all of them, by line. Each is a line of the message.
    #[error("{}", lines(.0))]
    Wrong(Vec<ConfigMistake>),
}

/// One mistake of a configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ConfigMistake {
    /// The file; none if there is only the command line.
    pub file: Option<PathBuf>,
    /// The line in it, from 1; none if the field is not in the file.
    pub line: Option<usize>,
    /// The field, from the root; none if the file is not TOML.
    pub field: Option<String>,
    /// The mistake: the expected and the found value, and the nearest valid name.
    pub message: String,
}

impl fmt::Display for ConfigMistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("configuration")?;
        if let Some(file) = &self.file {
            write!(f, " `{}`", file.display())?;
            if let Some(line) = self.line {
                write!(f, ", line {line}")?;
            }
        }
        match (&self.field, &self.file) {
            (Some(field), Some(_)) => write!(f, ", field `{field}`")?,
            (Some(field), None) => write!(f, " field `{field}`")?,
            (None, _) => {}
        }
        write!(f, ": {}", self.message)
    }
}

impl ConfigMistake {
    /// A value outside its range, in a configuration without a file.
    pub(crate) fn of_field(error: &FieldError) -> Self {
        Self {
            file: None,
            line: None,
            field: Some(error.field.clone()),
            message: format!("expected {}, found {}", error.expected, error.found),
        }
    }

    /// The same, at this place.
    pub(super) fn at(self, file: Option<&Path>, line: Option<usize>) -> Self {
        Self {
            file: file.map(Path::to_owned),
            line,
            ..self
        }
    }
}

impl ConfigError {
    /// The mistakes; none if the file cannot be read.
    pub fn mistakes(&self) -> &[ConfigMistake] {
        match self {
            Self::Read { .. } => &[],
            Self::Wrong(mistakes) => mistakes,
        }
    }
}

fn lines(mistakes: &[ConfigMistake]) -> String {
    let lines: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
    lines.join("\n")
}
