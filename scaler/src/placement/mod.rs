//! Placement of pods by scheduling gates.
//!
//! Pods of functions begin with a scheduling gate: the scheduler ignores them. The operator narrows
//! the required node affinity of each to its node, and removes the gate in the same write. Pods of
//! other owners that name a ModelProfile get the gate from the webhook, and prefer nodes instead.
//! What [`gates`](crate::gates) opens is neither narrowed nor prefers a node.

mod gate;
mod open;
mod selector;

use clap::ValueEnum;

pub use gate::{Gate, assigned_node};
pub use open::{Opened, open};
pub use selector::selects;

/// Way in which pods get to the nodes of the plan.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum PlacementMode {
    /// Pods wait behind a gate until the operator narrows each to its node
    #[default]
    Gates,
    /// Templates prefer nodes, and the scheduler decides
    Preferences,
}
