//! Errors of measuring a configuration.

use thiserror::Error;

use tetris_store_layout::StoreError;

use crate::instance::InstanceError;
use crate::load::LoadError;
use crate::oip::OipError;

/// The reason a configuration could not be measured.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MeasureError {
    /// An instance that does not run.
    #[error(transparent)]
    Instance(#[from] InstanceError),
    /// A failed request.
    #[error(transparent)]
    Oip(#[from] OipError),
    /// Too many errors, or too few answers in time.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A store that cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Tensors published at every start, so that the instance was charged for shared memory.
    #[error(
        "each of {starts} starts published objects in the store `{store}` again; enlarge the store, or let its reclaimer keep unused objects longer"
    )]
    Cold {
        /// Number of starts.
        starts: u32,
        /// Path of the store.
        store: String,
    },
    /// No sufficient memory limit.
    #[error(
        "the instance took {needed} bytes of its own without a limit, and still failed with a limit of {tried} bytes: {why}"
    )]
    NoLimit {
        /// Peak of its private memory without a limit, in bytes.
        needed: u64,
        /// Last limit tried, in bytes.
        tried: u64,
        /// Failure under that limit.
        why: String,
    },
}
