//! Settings of plans.

use serde::{Deserialize, Serialize};

use crate::error::FieldError;
use crate::limits::MAX_MEMORY_BYTES;
use crate::placement::MAX_MODELS;
use crate::score::Spread;

/// Maximum number of functions of one plan: half the models of a problem.
const MAX_PART: u32 = 512;
const _: () = assert!(2 * MAX_PART as usize <= MAX_MODELS);

/// Settings of plans. Missing fields have their defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Cost of starting an instance, in bytes: a replacement of running instances must save more.
    pub start_cost_bytes: u64,
    /// Preferred growth of a function, in percent of its capacity. Of 0, 30 and 70 the default had
    /// the least memory in the simulator under periodic and bursty requests, and fewer late requests
    /// than 0.
    pub growth_percent: u32,
    /// Share of its functions' cost that a consolidation must save, in thousandths.
    pub saving_permille: u32,
    /// Share of an empty node's CPU reserved for growth, in thousandths. The reserve is
    /// used if there is no other room.
    pub reserve_permille: u32,
    /// Number of nodes without instances and tensors that a plan considers first, the largest ones.
    pub empty_nodes: u32,
    /// Weight of free resources relative to resident tensors, in the scores of nodes.
    pub spread: Spread,
    /// Maximum number of trials to improve a plan.
    pub max_trials: u32,
    /// Maximum number of functions of one plan. More are planned in parts, one after the other, and a
    /// plan knows as many others whose tensors are on nodes.
    pub part_functions: u32,
    /// Number of nodes with a score, for each starting configuration.
    pub preferred_nodes: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            start_cost_bytes: 64_000_000,
            growth_percent: 30,
            saving_permille: 50,
            reserve_permille: 100,
            empty_nodes: 64,
            spread: Spread::default(),
            max_trials: 300,
            part_functions: MAX_PART,
            preferred_nodes: 16,
        }
    }
}

impl Settings {
    /// Checks every field.
    ///
    /// # Errors
    ///
    /// The first field out of range.
    pub fn check(&self) -> Result<(), FieldError> {
        let check = FieldError::check;
        check(
            "start_cost_bytes",
            self.start_cost_bytes,
            0,
            MAX_MEMORY_BYTES,
        )?;
        check("growth_percent", self.growth_percent.into(), 0, 1_000)?;
        check("saving_permille", self.saving_permille.into(), 1, 1_000)?;
        check("reserve_permille", self.reserve_permille.into(), 0, 1_000)?;
        check("empty_nodes", self.empty_nodes.into(), 1, 10_000)?;
        check("max_trials", self.max_trials.into(), 0, 1_000_000)?;
        let part = self.part_functions.into();
        check("part_functions", part, 1, MAX_PART.into())?;
        check("preferred_nodes", self.preferred_nodes.into(), 1, 1_000).map(|_| ())
    }
}
