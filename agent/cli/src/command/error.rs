//! The early end of a command: a message for people and an exit code for scripts.

use std::fmt;

use anyhow::anyhow;
use tetris_agent::store_location::StoreLocationError;
use tetris_agent::{LoadError, PrivateCause, Words};
use tetris_conventions::document::ErrorDocument;
use tetris_delivery::PullError;
use tetris_folder::FolderError;
use tetris_store_layout::{IoError, MapError, PublishError, StoreError};

use super::exit::Code;

/// The result of a command or of a step of it.
pub(crate) type Result<T = (), E = Error> = std::result::Result<T, E>;

/// The reason that a command ends early.
#[derive(Debug)]
pub(crate) struct Error {
    /// The exit code.
    pub(crate) code: Code,
    cause: anyhow::Error,
}

impl Error {
    /// Wraps `cause`.
    pub(crate) fn new(code: Code, cause: impl Into<anyhow::Error>) -> Self {
        Self {
            code,
            cause: cause.into(),
        }
    }

    /// The error below the message, if it is of this kind.
    pub(crate) fn cause<E: std::error::Error + Send + Sync + 'static>(&self) -> Option<&E> {
        self.cause.downcast_ref()
    }

    /// The error as scripts get it.
    pub(crate) fn document(&self) -> ErrorDocument {
        ErrorDocument::new(self.code.name(), self.code as u8, self.to_string())
    }

    /// An error that is a message alone.
    pub(crate) fn message(code: Code, message: impl fmt::Display) -> Self {
        Self::new(code, anyhow!("{message}"))
    }
}

impl fmt::Display for Error {
    /// The message and its causes, those left out that the message before them quotes already.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut last = String::new();
        for cause in self.cause.chain() {
            let text = cause.to_string();
            if last.is_empty() {
                f.write_str(&text)?;
            } else if !last.contains(&text) {
                write!(f, ": {text}")?;
            }
            last = text;
        }
        Ok(())
    }
}

impl From<StoreLocationError> for Error {
    /// A location without a usable store: there is no store to work on.
    fn from(error: StoreLocationError) -> Self {
        let remedy = error.remedy(Words::CommandLine);
        Self::message(Code::NoStore, format_args!("{error}; {remedy}"))
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        let code = match &error {
            StoreError::NotAStore { .. }
            | StoreError::Version { .. }
            | StoreError::Header { .. }
            | StoreError::NotTmpfs { .. }
            | StoreError::NotEmpty { .. } => Code::NoStore,
            _ => Code::Failed,
        };
        match PrivateCause::remedy_of_open(&error, Words::CommandLine) {
            Some(remedy) => Self::message(code, format_args!("{error}; {remedy}")),
            None => Self::new(code, error),
        }
    }
}

impl From<LoadError> for Error {
    fn from(error: LoadError) -> Self {
        let code = match &error {
            LoadError::OutOfMemory { .. } => Code::Failed,
            _ => Code::Model,
        };
        Self::new(code, error)
    }
}

impl From<PullError> for Error {
    fn from(error: PullError) -> Self {
        let code = match &error {
            PullError::Name { .. } | PullError::Pattern { .. } | PullError::NotWritable { .. } => {
                Code::Usage
            }
            PullError::Load(_)
            | PullError::Digest { .. }
            | PullError::MissingShard { .. }
            | PullError::Nothing { .. } => Code::Model,
            _ => Code::Failed,
        };
        Self::new(code, error)
    }
}

impl From<FolderError> for Error {
    fn from(error: FolderError) -> Self {
        let code = match &error {
            FolderError::NotPulled { .. }
            | FolderError::Table { .. }
            | FolderError::Manifest { .. }
            | FolderError::Freed { .. } => Code::Model,
            _ => Code::Failed,
        };
        Self::new(code, error)
    }
}

impl From<IoError> for Error {
    fn from(error: IoError) -> Self {
        Self::new(Code::Failed, error)
    }
}

impl From<MapError> for Error {
    fn from(error: MapError) -> Self {
        Self::new(Code::Failed, error)
    }
}

impl From<PublishError> for Error {
    fn from(error: PublishError) -> Self {
        Self::new(Code::Failed, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_that_is_quoted_already_is_not_repeated() {
        let inner = std::io::Error::from_raw_os_error(2);
        let error = Error::from(IoError::new("open", "/x", inner));
        assert_eq!(
            error.to_string(),
            "cannot open `/x`: No such file or directory (os error 2)"
        );
        let outer = anyhow!("inner").context("outer");
        assert_eq!(Error::new(Code::Failed, outer).to_string(), "outer: inner");
    }
}
