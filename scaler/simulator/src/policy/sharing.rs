//! Configurations and nodes of all functions at once, and how to get there from what runs.

use std::collections::BTreeMap;

use tetris_scaler_core::{Demand, Node, Placed, PlacementProblem, Rate, Resources, place};

use crate::catalogue::Function;
use crate::cluster::{self, Cluster};

/// What starting an instance is worth. Assumed: a plan moves instances for 64 MB each, not for less.
const START_COST_BYTES: u64 = 64_000_000;
/// Changes that are tried: a plan is made every few seconds.
const TRIALS: usize = 300;
/// What of an empty node's CPU is kept back for growth, in thousandths. Assumed.
const RESERVE_PERMILLE: u64 = 250;
/// Nodes without anything on them that are offered to a plan; all of a size are alike.
const EMPTY_NODES: usize = 64;

/// Instances of a function in one configuration on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Group {
    /// Index of the function.
    pub function: usize,
    /// Index of the node.
    pub node: usize,
    /// Index of the configuration.
    pub configuration: usize,
}

/// What there is to decide about.
#[derive(Clone, Copy, Debug)]
pub struct Want<'a> {
    /// All functions.
    pub functions: &'a [Function],
    /// What each has to carry.
    pub loads: &'a [Rate],
    /// What runs and stays unless the plan says otherwise.
    pub running: &'a BTreeMap<Group, u32>,
    /// What instances take that are on their way out, by node.
    pub leaving: &'a BTreeMap<usize, Resources>,
}

/// How many of each group there shall be.
pub type Plan = BTreeMap<Group, u32>;

/// The plan, or nothing if there is no room for all.
///
/// Of empty nodes the largest are offered, with a quarter of their CPU kept back, and all of all nodes only if that
/// is not enough: a placement does not know that loads grow, and what outgrows a node needs its tensors once
/// more elsewhere.
pub fn plan(want: &Want<'_>, cluster: &Cluster) -> Option<Plan> {
    let cpu = |node: &cluster::Node| node.all.cpu_millis;
    let most = cluster.nodes().iter().map(cpu).max().unwrap_or(0);
    let large = offered(cluster, |node| node.all.cpu_millis == most);
    let grown = plan_on(want, cluster, &large, RESERVE_PERMILLE);
    grown.or_else(|| plan_on(want, cluster, &offered(cluster, |_| true), 0))
}

fn plan_on(
    want: &Want<'_>,
    cluster: &Cluster,
    offered: &[usize],
    reserve_permille: u64,
) -> Option<Plan> {
    let nodes = offered.iter();
    let nodes: Vec<Node> = nodes
        .filter_map(|&at| node(want, cluster, at, reserve_permille))
        .collect();
    let demands: Vec<Demand> = want.functions.iter().zip(want.loads).map(demand).collect();
    let placement = place(&PlacementProblem {
        demands: &demands,
        nodes: &nodes,
        inventory: cluster.inventory(),
        current: &current(want, offered),
        fixed: &[],
        start_cost_bytes: START_COST_BYTES,
        max_trials: TRIALS,
    });
    let group = |placed: &Placed| {
        Some(Group {
            function: placed.model,
            node: *offered.get(placed.node)?,
            configuration: placed.configuration,
        })
    };
    let placed = placement.ok()?.placed;
    Some(
        placed
            .iter()
            .filter_map(|one| Some((group(one)?, one.count)))
            .collect(),
    )
}

/// What runs, with nodes as they are offered.
fn current(want: &Want<'_>, offered: &[usize]) -> Vec<Placed> {
    let numbers: BTreeMap<usize, usize> = offered
        .iter()
        .enumerate()
        .map(|(number, &at)| (at, number))
        .collect();
    let placed = want.running.iter().filter_map(|(group, &count)| {
        Some(Placed {
            model: group.function,
            node: *numbers.get(&group.node)?,
            configuration: group.configuration,
            count,
        })
    });
    placed.collect()
}

fn demand((function, &load): (&Function, &Rate)) -> Demand {
    Demand {
        name: function.name.clone(),
        profile: function.profile.clone(),
        slo: function.slo,
        load,
        tensors: function.tensors.clone(),
        alpha_bytes_per_millicore: 0,
    }
}

/// Nodes with something on them, and some of those without that are `wanted`.
fn offered(cluster: &Cluster, wanted: impl Fn(&cluster::Node) -> bool) -> Vec<usize> {
    let mut empty = 0;
    let nodes = cluster.nodes().iter().enumerate();
    let offered = nodes.filter(|(_, node)| {
        if !node.is_empty() {
            return true;
        }
        empty += usize::from(wanted(node));
        wanted(node) && empty <= EMPTY_NODES
    });
    offered.map(|(at, _)| at).collect()
}

/// As if no instance ran that stays, but with the tensors. An empty node keeps something back.
fn node(want: &Want<'_>, cluster: &Cluster, at: usize, reserve_permille: u64) -> Option<Node> {
    let node = cluster.nodes().get(at)?;
    let leaving = want.leaving.get(&at).copied().unwrap_or_default();
    let taken = leaving.memory_bytes.saturating_add(node.resident_bytes);
    let reserve = if node.is_empty() { reserve_permille } else { 0 };
    let offered = node.all.cpu_millis / 1_000 * (1_000_u64.saturating_sub(reserve));
    Some(Node {
        name: node.name.clone(),
        free: Resources {
            cpu_millis: offered.saturating_sub(leaving.cpu_millis),
            memory_bytes: node.all.memory_bytes.saturating_sub(taken),
        },
        tensor_bytes: None,
        accepts_new: true,
    })
}
