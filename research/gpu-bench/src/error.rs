//! Errors of the benchmark.

use std::io;
use std::path::{Path, PathBuf};

use crate::compute::ComputeError;
use tetris_gpu_client::ClientError;
use tetris_gpu_device::MemoryError;
use tetris_gpu_server::ServerError;
use tetris_gpu_server::copy::CopyError;
use tetris_store_layout::{MapError, ObjectId, PublishError, StoreError};
use thiserror::Error;

/// The reason a run or a measure failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BenchError {
    /// There is no device to measure on.
    #[error(
        "{0}\nnothing was measured: run this on a machine with an NVIDIA GPU, or try it out on host memory with --simulated"
    )]
    NoDevice(MemoryError),
    /// The memory does not suffice.
    #[error("expected {needed} of {what}, found {found}; {next}")]
    Room {
        /// The kind of memory.
        what: String,
        /// The required size, as text.
        needed: String,
        /// The available size, as text.
        found: String,
        /// The next step.
        next: &'static str,
    },
    /// The model cannot be used.
    #[error("`{path}` is no model to measure with: {reason}")]
    Model {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// A child process failed.
    #[error("the process `{role}` failed: {reason}")]
    Child {
        /// The role of the process.
        role: String,
        /// Its error message, or its exit status.
        reason: String,
    },
    /// Some measures failed; the report has their reasons.
    #[error("not measured because of an error: {names}; see the report")]
    Failed {
        /// Their names.
        names: String,
    },
    /// An object is missing from the store.
    #[error(
        "expected object {0} in the store, found none; does something else clean up `--store-dir`?"
    )]
    NoObject(ObjectId),
    /// An operation exceeded its timeout.
    #[error("expected that {what} within {seconds} s; is the machine busy with something else?")]
    Slow {
        /// The expected event.
        what: String,
        /// The timeout in seconds.
        seconds: u64,
    },
    /// An internal error.
    #[error("{0}; report this")]
    Bug(String),
    /// Device memory.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The mirror's server.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// The mirror's client.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// Products failed.
    #[error(transparent)]
    Compute(#[from] ComputeError),
    /// Copies.
    #[error(transparent)]
    Copy(#[from] CopyError),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Writing to the store.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// Reading from the store.
    #[error(transparent)]
    Map(#[from] MapError),
    /// A system call failed.
    #[error("cannot {action} `{path}`: {source}")]
    Io {
        /// The failed action, as a verb phrase.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
}

impl BenchError {
    /// Creates a function for `map_err`, for a failed `action` on `path`.
    pub(crate) fn io<E: Into<io::Error>>(
        action: &'static str,
        path: &Path,
    ) -> impl FnOnce(E) -> Self {
        let path = path.to_owned();
        move |source| Self::Io {
            action,
            path,
            source: source.into(),
        }
    }
}
