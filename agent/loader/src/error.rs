//! Errors of loading a model. None of them concerns the store: a load never fails because of it.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::header::HeaderError;
use crate::hub::HubError;

/// A model could not be loaded.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The model file could not be opened or read.
    #[error("cannot {action} `{}`: {source}", path.display())]
    Io {
        /// The action.
        action: &'static str,
        /// The model file.
        path: PathBuf,
        /// The kernel's error.
        #[source]
        source: io::Error,
    },
    /// The directory is not one of a model.
    #[error(transparent)]
    Hub(#[from] HubError),
    /// The file's header is invalid.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// The file is not a regular file.
    #[error("`{}` is not a regular file", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// The file kept changing while it was read.
    #[error("`{}` changed while it was read, {attempts} times in a row; load it when it is written completely", path.display())]
    Changed {
        /// The model file.
        path: PathBuf,
        /// Number of attempts.
        attempts: u32,
    },
    /// A tensor is in two files, and no index names the one that counts.
    #[error("tensor `{name}` is in `{}` and in `{}`; add a model.safetensors.index.json that says which one counts", first.display(), second.display())]
    DuplicateTensor {
        /// The tensor.
        name: String,
        /// One file that has it.
        first: PathBuf,
        /// The other.
        second: PathBuf,
    },
    /// The index names a tensor that its file does not have.
    #[error("the index says that tensor `{name}` is in `{}`, which does not have it; download the model again", file.display())]
    MissingTensor {
        /// The tensor.
        name: String,
        /// The file that should have it.
        file: PathBuf,
    },
    /// The file has elements of a type that this build does not know.
    #[error("tensor `{tensor}` of `{}` has elements of type {dtype}, which this build does not know; use a newer one", path.display())]
    Dtype {
        /// The model file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// The type's name.
        dtype: String,
    },
    /// There is not enough memory for a private copy.
    #[error("no memory for {bytes} bytes of `{}`, which the store cannot hold", path.display())]
    OutOfMemory {
        /// The model file.
        path: PathBuf,
        /// Number of bytes asked for.
        bytes: u64,
    },
}

impl LoadError {
    /// An error of `action`, e.g. `open` or `read`, on the file at `path`.
    pub fn io(action: &'static str, path: &Path, source: impl Into<io::Error>) -> Self {
        Self::Io {
            action,
            path: path.to_owned(),
            source: source.into(),
        }
    }
}

/// The end of one attempt to load a file.
#[derive(Debug)]
pub enum LoadFailure {
    /// The file changed under the reader: worth another attempt.
    Changed,
    /// Any other error.
    Load(LoadError),
}

impl<E: Into<LoadError>> From<E> for LoadFailure {
    fn from(error: E) -> Self {
        Self::Load(error.into())
    }
}
