//! Plans, and errors of placement.

use serde::Serialize;
use thiserror::Error;

use super::input::{MAX_INSTANCES, MAX_MODELS, Placed};
use super::shortage::Shortage;
use crate::error::FieldError;
use crate::rate::Rate;
use crate::selection::SloTooTight;

/// Instances by node, with their cost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Placement {
    /// All instances, by model, node and configuration.
    pub placed: Vec<Placed>,
    /// Rates that the instances of each model carry.
    pub rates: Vec<Rate>,
    /// Memory in bytes, of nodes and GPUs: private parts, and missing tensors once per node and once
    /// per GPU.
    pub memory_bytes: u128,
    /// CPU, in millicores.
    pub cpu_millis: u128,
    /// Number of instances that do not run yet.
    pub started: u64,
    /// Number of running instances that are not needed.
    pub stopped: u64,
    /// Cost `memory + alpha cpu + start cost`, in bytes.
    pub cost: u128,
    /// Lower bound of the cost of any placement, in bytes. See [`place`](crate::place).
    pub lower_bound: u128,
}

/// The reason there is no placement, and the necessary change.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PlacementError {
    /// No configuration of a model is fast enough.
    #[error("{model}: {reason}")]
    SloTooTight {
        /// Name of the model.
        model: String,
        /// The objective, and the smallest one that a configuration meets.
        reason: SloTooTight,
    },
    /// No node fits even one instance of the model, when idle.
    #[error("{model}: no node is large enough; node {node} comes closest, and lacks {missing}")]
    NoNodeLargeEnough {
        /// Name of the model.
        model: String,
        /// Node with the smallest shortage.
        node: String,
        /// Its shortage for the model's easiest configuration.
        missing: Shortage,
    },
    /// One instance of each model fits, but no placement of the whole load was found.
    #[error(
        "{model}: no room for {uncovered} of its load; node {node} comes closest, and lacks {missing} for one more instance"
    )]
    OutOfRoom {
        /// Name of the model with uncovered load.
        model: String,
        /// Uncovered load.
        uncovered: Rate,
        /// Node with the smallest shortage in the best attempt.
        node: String,
        /// Its shortage for one more instance.
        missing: Shortage,
    },
    /// A load that needs more instances than a plan may have.
    #[error("{model}: its load takes more than the {MAX_INSTANCES} instances of one plan")]
    TooManyInstances {
        /// Name of the model.
        model: String,
    },
    /// No node that takes new instances.
    #[error("no node takes new instances; add one")]
    NoNodes,
    /// Too many models for one problem.
    #[error("found {found} models, expected at most {MAX_MODELS}")]
    TooManyModels {
        /// Number of models.
        found: usize,
    },
    /// Two models with different sizes of the same object.
    #[error("{model}: object {object} has another size than in an earlier model")]
    TwoSizes {
        /// Name of the later model.
        model: String,
        /// Id of the object.
        object: tetris_store_layout::ObjectId,
    },
    /// A running instance with an unknown model, node or configuration.
    #[error("running instance {at}: found {field} {index}, expected an index below {count}")]
    Unknown {
        /// Index among the running instances.
        at: usize,
        /// Field with the index: "model", "node" or "configuration".
        field: &'static str,
        /// Index given.
        index: usize,
        /// Number of elements.
        count: usize,
    },
    /// A number out of range.
    #[error(transparent)]
    Field(#[from] FieldError),
}
