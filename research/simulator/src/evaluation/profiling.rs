//! Time to profile each model (figure 14c): all configurations, one after the other.

use serde::Serialize;

use super::claim::{Basis, Compared, Relation, TetrisClaim};
use crate::catalog::TABLE_4;

/// Configurations of a model, and the time to measure them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Profiling {
    /// Name of the model.
    pub model: &'static str,
    /// Number of configurations in C x B x P.
    pub configurations: u64,
    /// Time to measure all of them, in milliseconds.
    pub ms: u64,
}

/// Returns the times of all models of table 4, with `ms_per_configuration` milliseconds each.
pub fn profilings(ms_per_configuration: u64) -> Vec<Profiling> {
    let all = TABLE_4.iter().map(|model| Profiling {
        model: model.name,
        configurations: model.configurations(),
        ms: model.configurations() * ms_per_configuration,
    });
    all.collect()
}

/// Returns the text's statement on figure 14(c).
pub(super) fn claims(profilings: &[Profiling]) -> Vec<TetrisClaim> {
    let sum: u64 = profilings.iter().map(|profiling| profiling.ms).sum();
    let mean_ms = sum.checked_div(profilings.len() as u64);
    let claim = Compared {
        figure: "14c",
        name: "time to profile a model: mean of the 21 models".to_owned(),
        unit: "min",
        paper: 1_200,
        here: mean_ms.and_then(|ms| i64::try_from(ms / 600).ok()),
        basis: Basis::Computed,
    };
    vec![claim.is(
        Relation::Near,
        "it follows from --seconds-per-configuration and from the five values of C, which are assumed",
    )]
}
