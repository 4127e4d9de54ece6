//! Errors of cgroup operations.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// The reason a cgroup cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CgroupError {
    /// A failed file operation.
    #[error("cannot {action} `{}`: {source}", path.display())]
    Io {
        /// The operation.
        action: &'static str,
        /// Path of the file or directory.
        path: PathBuf,
        /// Cause.
        #[source]
        source: io::Error,
    },
    /// No hierarchy with the required controllers.
    #[error(
        "no cgroup delegates the controllers `cpu` and `memory`: {reason}; name one that does with --cgroup-parent"
    )]
    None {
        /// Searched paths.
        reason: String,
    },
}

impl CgroupError {
    pub(super) fn io(action: &'static str, path: impl AsRef<Path>, source: io::Error) -> Self {
        Self::Io {
            action,
            path: path.as_ref().to_owned(),
            source,
        }
    }
}

pub(super) fn read(path: &Path) -> Result<String, CgroupError> {
    std::fs::read_to_string(path).map_err(|error| CgroupError::io("read", path, error))
}

/// Writes to a control file. Never creates it: a missing file means that the kernel lacks the
/// feature.
pub(super) fn write(path: &Path, value: &str) -> Result<(), CgroupError> {
    use std::io::Write as _;
    std::fs::OpenOptions::new()
        .write(true)
        .open(path)
        .and_then(|mut file| file.write_all(value.as_bytes()))
        .map_err(|error| CgroupError::io("write to", path, error))
}
