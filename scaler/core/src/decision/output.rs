//! What is to be done, and why.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Outcome;
use crate::rate::Rate;

/// What is to be done for all functions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Decision {
    /// By function, in the order of the view.
    pub functions: Vec<FunctionDecision>,
}

/// What is to be done for a function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FunctionDecision {
    /// How many instances there shall be, by index of the configuration in the profile; zero for one whose last
    /// instance goes. Instances of configurations that are not in the profile are not counted: of those, all but the
    /// ones under `release` stay.
    pub replicas: BTreeMap<usize, u32>,
    /// How many of `replicas` are new, by configuration; none is zero.
    pub start: BTreeMap<usize, u32>,
    /// Instances to end, as indices into the view, least loaded first. They are [`Leaving`](super::Phase::Leaving)
    /// as soon as `replicas` are asked for.
    pub release: Vec<usize>,
    /// Instances whose replacements start and which go when those are ready. The caller gives them back as
    /// [`retiring`](super::InstanceView::retiring); those not listed lose that mark.
    pub retiring: Vec<usize>,
    /// All instances of the function, as indices into the view, in the order in which they should go: who is last
    /// has the highest deletion cost.
    pub ranking: Vec<usize>,
    /// Where to start, by configuration, best first; only of configurations in `start`. Nodes that are not
    /// listed are not forbidden.
    pub preferred: BTreeMap<usize, Vec<Preference>>,
    /// What instances carry that stay, those that start included.
    pub capacity: Rate,
    /// What of that is ready now.
    pub ready: Rate,
    /// What they have to carry so that nothing is started: the load with the headroom of scaling out.
    pub needed: Rate,
    /// Why.
    pub outcome: Outcome,
}

/// A node and how good it is for a new instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Preference {
    /// Index of the node in the view.
    pub node: usize,
    /// From 0 to 1,000.
    pub score: u32,
    /// How many instances the plan puts there; 0 for one that is only similar.
    pub planned: u32,
}

/// What the instances of a decision take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Own memory, and tensors once per node, in bytes.
    pub memory_bytes: u128,
    /// CPU in millicores.
    pub cpu_millis: u128,
    /// `memory + alpha cpu`, in bytes.
    pub cost: u128,
    /// Instances.
    pub instances: u64,
    /// Nothing that carries the loads with the headroom of scaling out costs less, in bytes.
    pub lower_bound: u128,
}
