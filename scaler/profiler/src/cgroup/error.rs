//! What goes wrong with cgroups.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Why no cgroup can be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CgroupError {
    /// A file operation failed.
    #[error("cannot {action} `{}`: {source}", path.display())]
    Io {
        /// What was being done.
        action: &'static str,
        /// To what.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// No hierarchy has the controllers.
    #[error(
        "no cgroup here has the controllers `cpu` and `memory` for its children: {reason}; name one that has with --cgroup-parent"
    )]
    None {
        /// What was looked at.
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

/// Writes to a control file. It is never created: without it the kernel lacks the feature.
pub(super) fn write(path: &Path, value: &str) -> Result<(), CgroupError> {
    use std::io::Write as _;
    std::fs::OpenOptions::new()
        .write(true)
        .open(path)
        .and_then(|mut file| file.write_all(value.as_bytes()))
        .map_err(|error| CgroupError::io("write to", path, error))
}
