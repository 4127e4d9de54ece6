//! Errors of the server's start.

use std::io;
use std::path::PathBuf;

use tetris_store_layout::IoError;
use tetris_wire::TakeoverError;
use thiserror::Error;

use tetris_gpu_device::MemoryError;

/// The reason a server cannot start, or cannot serve a tenant.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServerError {
    /// A device failed.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The socket's name cannot be taken: another server has it, for example.
    #[error(transparent)]
    Socket(#[from] TakeoverError),
    /// The file beside the socket cannot be locked.
    #[error("cannot lock `{path}`: {source}")]
    Lock {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The store's owner could shrink objects under the server's mappings, and SIGBUS would kill
    /// the server.
    #[error(
        "expected a store of user {expected} or of root, found that `{path}` belongs to user {found}; let the daemon own it"
    )]
    ForeignStore {
        /// The store.
        path: PathBuf,
        /// This process's user id.
        expected: u32,
        /// User id of the store's owner.
        found: u32,
    },
    /// The store's owner cannot be read.
    #[error(transparent)]
    Store(#[from] IoError),
    /// A limit is out of range.
    #[error("expected {expected}; change the limit")]
    Limits {
        /// The valid range.
        expected: &'static str,
    },
    /// Too many devices, or the same device twice.
    #[error("expected at most {most} devices, each once; leave some out")]
    Devices {
        /// Maximum number of devices.
        most: usize,
    },
    /// A thread or a descriptor could not be created.
    #[error("cannot {action}: {source}")]
    Start {
        /// The failed action, as a verb phrase.
        action: &'static str,
        /// The system's error.
        #[source]
        source: io::Error,
    },
}
