//! How many instances of which configuration, and on which nodes.
#![forbid(unsafe_code)]
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

mod cost;
mod dts;
mod error;
mod exact;
mod inventory;
mod placement;
mod profile;
mod rate;
mod scale_in;
mod score;
mod selection;

pub use cost::{MAX_ALPHA, MemoryTerm, Weights};
pub use dts::dts;
pub use error::FieldError;
pub use exact::{DEFAULT_STEPS, Solution, solve, solve_within};
pub use inventory::{
    Change, Inventory, InventoryFull, InventoryLimits, MAX_NODES, ModelError, ModelTensors,
    Similarity, Thetas,
};
pub use placement::{
    DEFAULT_TRIALS, Demand, MAX_INSTANCES, MAX_MODELS, Node, Placed, Placement, PlacementError,
    PlacementProblem, place, place_as_published,
};
pub use profile::{
    Configuration, ConfigurationSpec, MAX_BATCH, MAX_CONFIGURATIONS, MAX_CPU_MILLIS,
    MAX_MEMORY_BYTES, Profile, ProfileError,
};
pub use rate::{MAX_LATENCY_US, Rate, RateError, Slo};
pub use scale_in::{
    Because, LoadPeak, PeakError, Release, Running, ScaleInConfig, ScaleInError, ScaleInPolicy,
    scale_in,
};
pub use score::{Resources, Spread};
pub use selection::{Choice, Selection, SloTooTight, residual};
