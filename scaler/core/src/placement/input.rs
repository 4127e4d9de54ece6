//! What a placement is made of.

use serde::Serialize;

use crate::inventory::{Inventory, ModelTensors};
use crate::profile::Profile;
use crate::rate::{Rate, Slo};
use crate::score::Resources;

/// The most models of one problem.
pub const MAX_MODELS: usize = 1_024;
/// The most instances of one plan. A load that needs more is refused: each is placed by itself.
pub const MAX_INSTANCES: usize = 20_000;

/// A model and the requests for it.
#[derive(Clone, Debug)]
pub struct Demand {
    /// For messages.
    pub name: String,
    /// What was measured. The bytes that instances share are those of `tensors`, whatever the
    /// profile says.
    pub profile: Profile,
    /// The objective.
    pub slo: Slo,
    /// All requests for the model, not only what running instances leave.
    pub load: Rate,
    /// Its tensors.
    pub tensors: ModelTensors,
    /// alpha, in bytes per millicore.
    pub alpha_bytes_per_millicore: u64,
}

/// A node and what it has to give.
#[derive(Clone, Debug)]
pub struct Node {
    /// As in the inventory. A node that is not in there has no tensors.
    pub name: String,
    /// What is free for the models of this problem: as if none of their instances ran, but with the
    /// tensors that the inventory shows, which cost nothing more.
    pub free: Resources,
    /// Room for tensors that are not there, in bytes; `None` if they come out of `free.memory_bytes`.
    pub tensor_bytes: Option<u64>,
    /// Whether it takes instances beyond those that run there.
    pub accepts_new: bool,
}

/// `count` instances of a model in one configuration on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Placed {
    /// Index of the model among the demands.
    pub model: usize,
    /// Index of the node.
    pub node: usize,
    /// Index of the configuration in the model's profile.
    pub configuration: usize,
    /// How many.
    pub count: u32,
}

/// A model that has instances on a node which this problem is not about. What these have for themselves, and
/// what they carry, is to be left out of what is free and of the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Hosted {
    /// Index of the model among the demands.
    pub model: usize,
    /// Index of the node.
    pub node: usize,
}

/// Models, nodes and what runs: what [`place`](crate::place) decides about.
#[derive(Clone, Copy, Debug)]
pub struct PlacementProblem<'a> {
    /// The models.
    pub demands: &'a [Demand],
    /// The nodes.
    pub nodes: &'a [Node],
    /// Which tensors the nodes have.
    pub inventory: &'a Inventory,
    /// The instances that run. Those that break their objective do not stay.
    pub current: &'a [Placed],
    /// Models that stay on nodes whatever the plan: their tensors are there, or on their way.
    pub fixed: &'a [Hosted],
    /// What starting an instance is worth, in bytes: a plan changes what runs only if that saves more.
    pub start_cost_bytes: u64,
    /// How many changes are tried to improve a plan.
    pub max_trials: usize,
}

/// Enough that a larger number seldom finds more.
pub const DEFAULT_TRIALS: usize = 2_000;
