//! Why there are no figures.

use std::io;
use std::path::{Path, PathBuf};

use tetris_gpu_mirror::client::ClientError;
use tetris_gpu_mirror::compute::ComputeError;
use tetris_gpu_mirror::copy::CopyError;
use tetris_gpu_mirror::memory::MemoryError;
use tetris_gpu_mirror::server::ServerError;
use tetris_store_layout::{MapError, ObjectId, PublishError, StoreError};
use thiserror::Error;

/// Why there are no figures.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BenchError {
    /// No device to measure on.
    #[error(
        "{0}\nnothing was measured: run this on a machine with an NVIDIA GPU, or try it out on host memory with --stand-in"
    )]
    NoDevice(MemoryError),
    /// Not enough memory.
    #[error("expected {needed} of {what}, found {found}; {next}")]
    Room {
        /// Which memory.
        what: String,
        /// What is needed.
        needed: String,
        /// What there is.
        found: String,
        /// What to do.
        next: &'static str,
    },
    /// A model that cannot be used.
    #[error("`{path}` is no model to measure with: {reason}")]
    Model {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A child process failed.
    #[error("the process `{role}` failed: {reason}")]
    Child {
        /// What it was doing.
        role: String,
        /// What it said, or how it ended.
        reason: String,
    },
    /// Some measures failed; the report says why.
    #[error("not measured because of an error: {names}; see the report")]
    Failed {
        /// Their names.
        names: String,
    },
    /// An object is not where it was put.
    #[error(
        "expected object {0} in the store, found none; does something else clean up `--store-dir`?"
    )]
    NoObject(ObjectId),
    /// Something took too long.
    #[error("expected that {what} within {seconds} s; is the machine busy with something else?")]
    Slow {
        /// What was waited for.
        what: String,
        /// How long.
        seconds: u64,
    },
    /// Something that should not happen.
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
    /// Products.
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
        /// What was being done, as a verb phrase.
        action: &'static str,
        /// To what.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
}

impl BenchError {
    /// For `map_err`: `action` on `path` failed.
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
