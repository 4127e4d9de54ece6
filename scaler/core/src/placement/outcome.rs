//! Plans, and why there is none.

use serde::Serialize;
use thiserror::Error;

use super::input::{MAX_INSTANCES, MAX_MODELS, Placed};
use super::shortage::Shortage;
use crate::error::FieldError;
use crate::rate::Rate;
use crate::selection::SloTooTight;

/// Which instances run where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Placement {
    /// All instances, by model, node and configuration.
    pub placed: Vec<Placed>,
    /// What each model's instances carry.
    pub rates: Vec<Rate>,
    /// Memory in bytes: own parts, and tensors that a node has not yet, once per node.
    pub memory_bytes: u128,
    /// CPU in millicores.
    pub cpu_millis: u128,
    /// Instances that do not run yet.
    pub started: u64,
    /// Instances that run and are not needed.
    pub stopped: u64,
    /// `memory + alpha cpu + start cost`, in bytes: what is minimised.
    pub cost: u128,
    /// No placement costs less, in bytes. See [`place`](crate::place).
    pub lower_bound: u128,
}

/// Why there is no placement, and what would have to change.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PlacementError {
    /// No configuration of a model is fast enough.
    #[error("{model}: {reason}")]
    SloTooTight {
        /// The model's name.
        model: String,
        /// With the smallest objective that one meets.
        reason: SloTooTight,
    },
    /// Not one instance of the model fits on any node, even an idle one.
    #[error("{model}: no node is large enough; node {node} comes closest, and lacks {missing}")]
    NoNodeLargeEnough {
        /// The model's name.
        model: String,
        /// The node that lacks least.
        node: String,
        /// What it lacks for the model's easiest configuration.
        missing: Shortage,
    },
    /// One instance of each model fits, but no placement for all of the load was found.
    #[error(
        "{model}: no room for {uncovered} of its load; on node {node}, which comes closest, {missing} are missing for one more instance"
    )]
    OutOfRoom {
        /// The model whose load is left.
        model: String,
        /// How much of it.
        uncovered: Rate,
        /// The node that lacks least, as the best attempt left it.
        node: String,
        /// What it lacks for one more instance.
        missing: Shortage,
    },
    /// The load takes more instances than a plan may have.
    #[error("{model}: its load takes more than the {MAX_INSTANCES} instances of one plan")]
    TooManyInstances {
        /// The model's name.
        model: String,
    },
    /// There are no nodes, or none that takes new instances.
    #[error("there is no node to place instances on")]
    NoNodes,
    /// Too many models for one problem.
    #[error("expected at most {MAX_MODELS} models, found {found}")]
    TooManyModels {
        /// How many.
        found: usize,
    },
    /// Two models disagree about the size of an object.
    #[error("{model}: object {object} has another size than in a model before it")]
    TwoSizes {
        /// The later model's name.
        model: String,
        /// The object.
        object: tetris_store_layout::ObjectId,
    },
    /// An instance that runs is of a model, node or configuration that is not given.
    #[error("running instance {at} names {field} {index}, of which there are {count}")]
    Unknown {
        /// Its index among those that run.
        at: usize,
        /// "model", "node" or "configuration".
        field: &'static str,
        /// The index it gives.
        index: usize,
        /// How many there are.
        count: usize,
    },
    /// A number is out of range.
    #[error(transparent)]
    Field(#[from] FieldError),
}
