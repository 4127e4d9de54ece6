//! Errors of sharing bytes, and the reasons for private memory.

use tetris_store_layout::PublishError;
use thiserror::Error;

/// The reason for private bytes where no store was configured.
pub(crate) const NO_STORE: &str = "no tensor store is used";

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
    /// The store did not take them.
    #[error(transparent)]
    Publish(#[from] PublishError),
}
