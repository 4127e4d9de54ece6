//! Result of a decision.

use std::collections::BTreeMap;

use serde::Serialize;

use super::FunctionOutcome;
use crate::rate::Rate;

/// Decisions for all functions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Decision {
    /// Decisions by function, in the order of the view.
    pub functions: Vec<FunctionDecision>,
}

/// Decision for a function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FunctionDecision {
    /// Decided number of instances, by index of the configuration in the profile; zero for a
    /// configuration that loses its last instance. Instances of configurations outside the profile
    /// do not count: they stay, except for those under `release`.
    pub replicas: BTreeMap<usize, u32>,
    /// Number of new instances in `replicas`, by configuration; none is zero.
    pub start: BTreeMap<usize, u32>,
    /// Instances to stop, as indices in the view, least loaded first. They are
    /// [`Leaving`](super::Phase::Leaving) once `replicas` are requested.
    pub release: Vec<usize>,
    /// Instances that stop once their replacements are ready. The caller returns them as
    /// [`retiring`](super::InstanceView::retiring); an instance that is not listed loses that mark.
    pub retiring: Vec<usize>,
    /// All instances of the function, as indices in the view, in the order of deletion: the last
    /// has the highest deletion cost.
    pub ranking: Vec<usize>,
    /// Nodes for new instances, by configuration in `start`, best first. Other nodes are not
    /// forbidden.
    pub preferred: BTreeMap<usize, Vec<Preference>>,
    /// Rate that the remaining and starting instances carry.
    pub capacity: Rate,
    /// Part of `capacity` that is ready now.
    pub ready: Rate,
    /// Rate without which instances are started: the load with the headroom of scaling out.
    pub needed: Rate,
    /// The reason for the decision.
    pub outcome: FunctionOutcome,
}

/// A node with its score for a new instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Preference {
    /// Index of the node in the view.
    pub node: usize,
    /// Score from 0 to 1,000.
    pub score: u32,
    /// Number of instances that the plan puts there; 0 for a node that is only similar.
    pub planned: u32,
}

/// Resources of a decision's instances.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Private memory, and tensors once per node, in bytes.
    pub memory_bytes: u128,
    /// CPU, in millicores.
    pub cpu_millis: u128,
    /// Cost `memory + alpha cpu`, in bytes.
    pub cost: u128,
    /// Number of instances.
    pub instances: u64,
    /// Lower bound of the cost of carrying the loads with the headroom of scaling out, in bytes.
    pub lower_bound: u128,
}
