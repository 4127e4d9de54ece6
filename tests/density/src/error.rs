//! Errors of a benchmark, each with the path and the next step.

use std::io;
use std::path::{Path, PathBuf};

use crate::units;

/// Result with this crate's [`enum@Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// The reason a run stops, or a method fails.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A system call on a path failed.
    #[error("cannot {action} `{}`", path.display())]
    Io {
        /// The failed action, as a verb.
        action: &'static str,
        /// The path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file is not a valid safetensors file.
    #[error("`{}` is not a usable safetensors file: {reason}", path.display())]
    Model {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The tensor store failed.
    #[error("tensor store `{}`: {reason}", path.display())]
    Store {
        /// The store's directory.
        path: PathBuf,
        /// Its error.
        reason: String,
    },
    /// A worker process ended before its time.
    #[error(
        "worker {pid} died ({status}) during the request to {doing}{}",
        tail(stderr)
    )]
    Died {
        /// Process id.
        pid: u32,
        /// Exit code or signal.
        status: String,
        /// The request in progress.
        doing: &'static str,
        /// The last bytes of its standard error.
        stderr: String,
    },
    /// A worker could not carry out a request.
    #[error("worker {pid} could not {doing}: {reason}")]
    Refused {
        /// Process id.
        pid: u32,
        /// The request.
        doing: &'static str,
        /// Its reason.
        reason: String,
    },
    /// A worker exceeded the deadline and was killed.
    #[error(
        "worker {pid} did not {doing} within {seconds} s and was killed; a larger --deadline may help"
    )]
    Deadline {
        /// Process id.
        pid: u32,
        /// The request.
        doing: &'static str,
        /// The deadline in seconds.
        seconds: u64,
    },
    /// A worker sent an unexpected answer.
    #[error("worker {pid} answered `{line}` to the request to {doing}")]
    Protocol {
        /// Process id.
        pid: u32,
        /// The request.
        doing: &'static str,
        /// The answer.
        line: String,
    },
    /// The file copies would not leave enough room on the disk.
    #[error("`{}` has {} free but {} are needed; choose another --workdir or fewer --instances",
        path.display(), units::bytes(*free), units::bytes(*needed))]
    Disk {
        /// A directory on the file system.
        path: PathBuf,
        /// Number of free bytes.
        free: u64,
        /// Number of bytes to write, with a reserve.
        needed: u64,
    },
    /// Options that contradict each other.
    #[error("{0}")]
    Usage(String),
    /// Ctrl-C or a termination signal.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    /// Creates a function that adds the action and the path to an [`io::Error`].
    pub fn io(action: &'static str, path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> Self {
        let path = path.as_ref().to_path_buf();
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }

    /// Formats the error and its causes in one line.
    pub fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        text
    }
}

fn tail(stderr: &str) -> String {
    let text = stderr.trim();
    if text.is_empty() {
        String::new()
    } else {
        format!("; it wrote: {text}")
    }
}
