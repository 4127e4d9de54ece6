//! What cannot be simulated.

use tetris_scaler_core::{
    FieldError, InventoryFull, ModelError, PeakError, ProfileError, ScaleInError, SloTooTight,
};
use thiserror::Error;

/// A scenario that cannot be simulated.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SimulationError {
    /// A number is out of range.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// The configurations of a model are no profile.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The tensors of a model contradict each other.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The policy of scaling in contradicts itself.
    #[error(transparent)]
    ScaleIn(#[from] ScaleInError),
    /// The cluster's tensors exceed the limits of an inventory.
    #[error(transparent)]
    Inventory(#[from] InventoryFull),
    /// Measurements came out of order.
    #[error(transparent)]
    Peak(#[from] PeakError),
    /// No configuration that the policy may use is fast enough.
    #[error("{function}: {reason}")]
    SloTooTight {
        /// The function's name.
        function: String,
        /// With the smallest objective that one meets.
        reason: SloTooTight,
    },
}
