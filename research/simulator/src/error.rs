//! Errors of simulations.

use tetris_scaler_core::{
    FieldError, InventoryFull, ModelError, PeakError, ProfileError, ScaleInError, SloTooTight,
};
use thiserror::Error;

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
    /// No sufficiently fast configuration among those that the policy may use.
    #[error("{function}: {reason}")]
    SloTooTight {
        /// Name of the function.
        function: String,
        /// The objective, and the smallest one that a configuration meets.
        reason: SloTooTight,
    },
}
