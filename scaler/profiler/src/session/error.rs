//! Why there is no profile.

use thiserror::Error;

use tetris_store_layout::StoreError;

use crate::cpus::CpuError;
use crate::database::DatabaseError;
use crate::measure::MeasureError;

/// Why there is no profile.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// The database cannot be used.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// The store cannot be opened.
    #[error("--store: {0}")]
    Store(#[from] StoreError),
    /// There are too few CPUs.
    #[error(transparent)]
    Cpus(#[from] CpuError),
    /// CPU cannot be limited to fractions here.
    #[error(
        "{setting} takes a fraction of a CPU, for which a cgroup is needed, and none can be made ({reason}); take whole CPUs, or run as root"
    )]
    Fraction {
        /// The setting.
        setting: String,
        /// Why there is no cgroup.
        reason: String,
    },
    /// The first start failed, and so would the others.
    #[error("the first start, without any limits, failed: {0}")]
    FirstStart(#[source] MeasureError),
    /// What defines the measurements cannot be hashed.
    #[error("cannot hash the command: {0}")]
    Identity(#[from] serde_json::Error),
    /// Nothing was measured.
    #[error("no configuration could be measured; the first, {setting}, failed: {error}")]
    Nothing {
        /// The first setting.
        setting: String,
        /// Why it failed.
        error: String,
    },
}
