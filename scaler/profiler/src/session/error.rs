//! Errors of a profiling session.

use thiserror::Error;

use tetris_store_layout::StoreError;

use crate::cpus::CpuError;
use crate::database::DatabaseError;
use crate::measure::MeasureError;

/// The reason there is no profile.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// An unusable database.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// A store that cannot be opened.
    #[error("--store: {0}")]
    Store(#[from] StoreError),
    /// Too few CPUs.
    #[error(transparent)]
    Cpus(#[from] CpuError),
    /// A fraction of a CPU, without a cgroup to limit it.
    #[error(
        "{setting} takes a fraction of a CPU, which needs a cgroup, and none can be created ({reason}); use whole CPUs, or run as root"
    )]
    Fraction {
        /// Name of the setting.
        setting: String,
        /// The reason there is no cgroup.
        reason: String,
    },
    /// A failed first start; the others would fail too.
    #[error("the first start, without any limits, failed: {0}")]
    FirstStart(#[source] MeasureError),
    /// A command that cannot be hashed.
    #[error("cannot hash the command: {0}")]
    Identity(#[from] serde_json::Error),
    /// No measured configuration.
    #[error("no configuration could be measured; the first, {setting}, failed: {error}")]
    Nothing {
        /// Name of the first setting.
        setting: String,
        /// Its error.
        error: String,
    },
}
