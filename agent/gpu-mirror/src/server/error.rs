//! Why a server does not start.

use std::io;
use std::path::PathBuf;

use tetris_store_layout::IoError;
use thiserror::Error;

use crate::memory::MemoryError;

/// A server cannot start, or not serve a tenant.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServerError {
    /// A device does not work.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// Another server listens there.
    #[error(
        "expected `{path}` to be free, found that a server has it; stop that one or choose another path"
    )]
    InUse {
        /// The socket.
        path: PathBuf,
    },
    /// The socket cannot be made.
    #[error("cannot {action} `{path}`: {source}")]
    Socket {
        /// What was being done, as a verb phrase.
        action: &'static str,
        /// The socket, or a file beside it.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The store's owner could cut objects under the server's mappings, and it would be killed.
    #[error(
        "expected a store of user {expected} or of root, found that `{path}` belongs to user {found}; let the daemon own it"
    )]
    ForeignStore {
        /// The store.
        path: PathBuf,
        /// This process's user.
        expected: u32,
        /// The store's owner.
        found: u32,
    },
    /// The store cannot be looked at.
    #[error(transparent)]
    Store(#[from] IoError),
    /// A limit that makes no sense.
    #[error("expected {expected}; change the limit")]
    Limits {
        /// What would do.
        expected: &'static str,
    },
    /// Too many devices, or one twice.
    #[error("expected at most {most} devices, each once; leave some out")]
    Devices {
        /// How many there may be.
        most: usize,
    },
    /// A thread or a descriptor cannot be had.
    #[error("cannot {action}: {source}")]
    Start {
        /// What was being done, as a verb phrase.
        action: &'static str,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
}
