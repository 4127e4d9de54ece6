//! What can stop a benchmark, each with the place and the next step.

use std::io;
use std::path::{Path, PathBuf};

use crate::units;

/// Result with this crate's [`enum@Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// A reason to stop, or to report one method as failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A system call on a path failed.
    #[error("cannot {action} `{}`", path.display())]
    Io {
        /// What was tried, as a verb.
        action: &'static str,
        /// On which path.
        path: PathBuf,
        /// What the system answered.
        source: io::Error,
    },
    /// A file is not what a safetensors reader accepts.
    #[error("`{}` is not a usable safetensors file: {reason}", path.display())]
    Model {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The tensor store refused.
    #[error("tensor store `{}`: {reason}", path.display())]
    Store {
        /// The store's directory.
        path: PathBuf,
        /// What it said.
        reason: String,
    },
    /// A worker process ended before it was told to.
    #[error("worker {pid} died ({status}) while it was to {doing}{}", tail(stderr))]
    Died {
        /// Process id.
        pid: u32,
        /// Exit code or signal.
        status: String,
        /// The request that was under way.
        doing: &'static str,
        /// The last of what it wrote to its standard error.
        stderr: String,
    },
    /// A worker said that it could not do what was asked.
    #[error("worker {pid} could not {doing}: {reason}")]
    Refused {
        /// Process id.
        pid: u32,
        /// The request.
        doing: &'static str,
        /// Its answer.
        reason: String,
    },
    /// A worker did not answer in time and was killed.
    #[error(
        "worker {pid} did not {doing} within {seconds} s and was killed; a larger --deadline may help"
    )]
    Deadline {
        /// Process id.
        pid: u32,
        /// The request.
        doing: &'static str,
        /// The limit in seconds.
        seconds: u64,
    },
    /// A worker answered something else than what was asked.
    #[error("worker {pid} answered `{line}` when it was to {doing}")]
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
        /// Directory on the file system in question.
        path: PathBuf,
        /// Bytes free.
        free: u64,
        /// Bytes that would be written, with a reserve.
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
    /// Makes the closure that turns an [`io::Error`] into one that names the path.
    pub fn io(action: &'static str, path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> Self {
        let path = path.as_ref().to_path_buf();
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }

    /// The error and its causes in one line.
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
