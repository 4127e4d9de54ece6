//! The table `[cold]`.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tetris_cold::ColdLimits;

use crate::field_error::FieldError;

/// Least size of a useful tier.
const LEAST_BYTES: u64 = 64 << 20;
/// Most that can stay free.
const MOST_FREE_PERCENT: u8 = 90;

/// The table `[cold]`: a copy of pulled models on a local disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ColdConfig {
    /// Directory on a local disk, for the daemon only.
    pub path: PathBuf,
    /// Most bytes there.
    #[serde(with = "tetris_units::size")]
    pub size_bytes: u64,
    /// Percent of the disk that stays free.
    #[serde(default = "free_percent")]
    pub free_percent: u8,
}

/// More than the tenth with which kubelets begin to end pods.
fn free_percent() -> u8 {
    12
}

impl ColdConfig {
    /// The limits of the tier.
    pub fn limits(&self) -> ColdLimits {
        ColdLimits {
            bytes: self.size_bytes,
            free_percent: self.free_percent,
        }
    }

    /// Mistakes in the table. `stores` are the directories of the tensor stores.
    pub fn mistakes<'p>(&self, stores: impl IntoIterator<Item = &'p Path>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let mut stores = stores.into_iter();
        // The broker's sandbox has a rule for the directory above.
        let is_below_root = self
            .path
            .parent()
            .is_none_or(|parent| parent == Path::new("/"));
        if !self.path.is_absolute() || is_below_root {
            let expected = "an absolute path on a local disk, not directly below `/`";
            errors.push(FieldError::new("cold.path", expected, self.path.display()));
        } else if let Some(store) = stores.find(|store| self.path.starts_with(store)) {
            let expected = format!("a directory outside of `{}`", store.display());
            errors.push(FieldError::new("cold.path", expected, self.path.display()));
        }
        if self.size_bytes < LEAST_BYTES {
            let expected = format!("at least {LEAST_BYTES}");
            errors.push(FieldError::new(
                "cold.size_bytes",
                expected,
                self.size_bytes,
            ));
        }
        if self.free_percent > MOST_FREE_PERCENT {
            let expected = format!("0 to {MOST_FREE_PERCENT}");
            errors.push(FieldError::new(
                "cold.free_percent",
                expected,
                self.free_percent,
            ));
        }
        errors
    }
}
