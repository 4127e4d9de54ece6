//! How plans are made.

use serde::{Deserialize, Serialize};

use crate::configuration::MAX_MEMORY_BYTES;
use crate::error::FieldError;
use crate::score::Spread;

/// How plans are made. Fields that are left out have their defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// What starting an instance is worth, in bytes: running instances are replaced only for more.
    pub start_cost_bytes: u64,
    /// A consolidation has to save this share of what its functions take, in thousandths.
    pub saving_permille: u32,
    /// What of an empty node's CPU is kept back for growth, in thousandths; all is given if there is no room else.
    pub reserve_permille: u32,
    /// Nodes without instances or tensors that are looked at first, the largest ones.
    pub empty_nodes: u32,
    /// How much room counts beside tensors that are there, in the scores of nodes.
    pub spread: Spread,
    /// Changes that are tried to improve a plan.
    pub max_trials: u32,
    /// Nodes with a score, for each configuration that is started.
    pub preferred_nodes: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            start_cost_bytes: 64_000_000,
            saving_permille: 50,
            reserve_permille: 100,
            empty_nodes: 64,
            spread: Spread::default(),
            max_trials: 300,
            preferred_nodes: 16,
        }
    }
}

impl Settings {
    /// Checks every field.
    pub fn check(&self) -> Result<(), FieldError> {
        let check = FieldError::check;
        check(
            "start_cost_bytes",
            self.start_cost_bytes,
            0,
            MAX_MEMORY_BYTES,
        )?;
        check("saving_permille", self.saving_permille.into(), 1, 1_000)?;
        check("reserve_permille", self.reserve_permille.into(), 0, 1_000)?;
        check("empty_nodes", self.empty_nodes.into(), 1, 10_000)?;
        check("max_trials", self.max_trials.into(), 0, 1_000_000)?;
        check("preferred_nodes", self.preferred_nodes.into(), 1, 1_000).map(|_| ())
    }
}
