//! Errors of sharing bytes.

use tetris_loader::PrivateCause;
use tetris_store_layout::PublishError;
use thiserror::Error;

/// Bytes could not be shared. The caller keeps them.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ShareError {
    /// There is no store.
    #[error("the bytes stay private: {reason}")]
    NoStore {
        /// The reason that there is none.
        reason: String,
    },
    /// This process can only read the store, and no daemon published them.
    #[error("the bytes stay private: {reason}")]
    Private {
        /// The cause.
        cause: PrivateCause,
        /// The cause with its details.
        reason: String,
    },
    /// The store did not take them.
    #[error(transparent)]
    Publish(#[from] PublishError),
}
