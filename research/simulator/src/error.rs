//! Errors of simulations.

use tetris_scaler_core::{
    FieldError, InventoryFull, ModelError, PeakError, ProfileError, Rate, ScaleInError, SloTooTight,
};
use thiserror::Error;

use crate::trace::MAX_RPS;

/// The reason a scenario cannot be simulated.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SimulationError {
    /// A number out of range.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// Configurations of a model that form no profile.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// Contradictory tensors of a model.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A contradictory policy of scaling in.
    #[error(transparent)]
    ScaleIn(#[from] ScaleInError),
    /// More tensors than an inventory holds.
    #[error(transparent)]
    Inventory(#[from] InventoryFull),
    /// Measurements out of order.
    #[error(transparent)]
    Peak(#[from] PeakError),
    /// Requests of a file that come too fast for one application, after they are scaled to its load.
    #[error(
        "the busiest second of the file's requests: expected at most {}, found {peak}; take functions with more requests \
         (--trace-min-requests), more functions (--trace-functions), or a lower --rps or --trace-rate",
        Rate::from_rps(MAX_RPS)
    )]
    TraceTooFast {
        /// Rate of the busiest second.
        peak: Rate,
    },
    /// No sufficiently fast configuration among those that the policy may use.
    #[error("{function}: {reason}")]
    SloTooTight {
        /// Name of the function.
        function: String,
        /// The objective, and the smallest one that a configuration meets.
        reason: SloTooTight,
    },
}
