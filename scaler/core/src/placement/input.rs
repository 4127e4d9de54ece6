//! Input of a placement.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::gpu::GpuRoom;
use crate::inventory::{Inventory, ModelTensors};
use crate::profile::Profile;
use crate::rate::{Rate, Slo};
use crate::score::Resources;

/// Maximum number of models of one problem.
pub const MAX_MODELS: usize = 1_024;
/// Maximum number of instances of one plan. A larger load is refused, as instances are placed one
/// by one.
pub const MAX_INSTANCES: usize = 20_000;

/// A model and its load.
#[derive(Clone, Debug)]
pub struct Demand {
    /// Name of the model, for messages.
    pub name: String,
    /// Measured configurations. The shared bytes are those of `tensors`, not of the profile.
    pub profile: Profile,
    /// Latency objective.
    pub slo: Slo,
    /// Load of the model, including that of running instances.
    pub load: Rate,
    /// Tensors of the model.
    pub tensors: ModelTensors,
    /// Store of the tensors, as a number by which [`Node::stores`] names it.
    pub store: usize,
    /// Cost of CPU (alpha), in bytes per millicore.
    pub alpha_bytes_per_millicore: u64,
}

/// A node with its free resources.
#[derive(Clone, Debug)]
pub struct Node {
    /// Name of the node in the inventory. A node missing there has no tensors.
    pub name: String,
    /// Resources free for the models of this problem, as if none of their instances ran. Tensors in
    /// the inventory are already subtracted and cost nothing more.
    pub free: Resources,
    /// Room for further tensors, in bytes; `None` if they come out of `free.memory_bytes`.
    pub tensor_bytes: Option<u64>,
    /// Room of single stores for further tensors, in bytes. It is a part of `tensor_bytes`; a store
    /// that is missing here may take all of that.
    pub stores: BTreeMap<usize, u64>,
    /// GPUs of the node, with the room that instances outside of this problem leave.
    pub gpus: Vec<GpuRoom>,
    /// True if only instances with a GPU may start there.
    pub gpus_only: bool,
    /// True if the node takes instances beyond those that run there.
    pub accepts_new: bool,
}

/// A number of instances of a model in one configuration on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Placed {
    /// Index of the model among the demands.
    pub model: usize,
    /// Index of the node.
    pub node: usize,
    /// Index of the configuration in the model's profile.
    pub configuration: usize,
    /// Index of the GPU on the node, for a configuration with one.
    pub gpu: Option<usize>,
    /// Number of instances.
    pub count: u32,
}

/// A model with instances on a node that this problem does not decide about. The caller subtracts
/// their private memory from the free resources, and their capacity from the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Hosted {
    /// Index of the model among the demands.
    pub model: usize,
    /// Index of the node.
    pub node: usize,
}

/// Models, nodes and running instances: the input of [`place`](crate::place).
#[derive(Clone, Copy, Debug)]
pub struct PlacementProblem<'a> {
    /// Models with their loads.
    pub demands: &'a [Demand],
    /// Nodes with their free resources.
    pub nodes: &'a [Node],
    /// Tensors of the nodes.
    pub inventory: &'a Inventory,
    /// Running instances. Those that break their objective do not stay.
    pub current: &'a [Placed],
    /// Models that stay on nodes in any plan: their tensors are there, or on their way.
    pub fixed: &'a [Hosted],
    /// Cost of starting an instance, in bytes: a plan changes running instances only if that saves
    /// more.
    pub start_cost_bytes: u64,
    /// Maximum number of trials to improve a plan.
    pub max_trials: usize,
}

/// Default number of trials; a larger one seldom finds more.
pub const DEFAULT_TRIALS: usize = 2_000;
