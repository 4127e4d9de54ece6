//! Why a configuration could not be measured.

use thiserror::Error;

use tetris_store_layout::StoreError;

use crate::instance::InstanceError;
use crate::load::LoadError;
use crate::oip::OipError;

/// Why a configuration could not be measured.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MeasureError {
    /// Its instance does not run.
    #[error(transparent)]
    Instance(#[from] InstanceError),
    /// The server cannot be asked.
    #[error(transparent)]
    Oip(#[from] OipError),
    /// Requests fail or take too long.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Every start publishes tensors anew, so that what is shared was charged to the instance.
    #[error(
        "each of {starts} starts published objects in the store `{store}`, although the one before had; is it too small, or does its reclaimer free at once?"
    )]
    Cold {
        /// How many starts.
        starts: u32,
        /// The store.
        store: String,
    },
    /// No memory limit was enough.
    #[error(
        "without a limit it took {needed} bytes of its own, and with a limit of {tried} bytes it still did not pass: {why}"
    )]
    NoLimit {
        /// What it was seen to take, in bytes.
        needed: u64,
        /// The last limit, in bytes.
        tried: u64,
        /// What went wrong under it.
        why: String,
    },
}
