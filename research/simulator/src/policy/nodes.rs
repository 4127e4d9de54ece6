//! Choice of the node for an instance.

use std::cmp::Reverse;

use tetris_scaler_core::{Configuration, Similarity, Spread};

use crate::catalog::Function;
use crate::cluster::{Cluster, Node};

/// Returns the nodes with room for one more instance.
fn fitting<'a>(
    cluster: &'a Cluster,
    function: &'a Function,
    configuration: &'a Configuration,
) -> impl Iterator<Item = (usize, &'a Node)> {
    let nodes = cluster.nodes().iter().enumerate();
    nodes.filter(move |&(at, node)| {
        // The cheap check goes first: there may be 10,000 nodes.
        node.free().cpu_millis >= configuration.cpu_millis()
            && cluster.takes(at, function, configuration).is_some()
    })
}

/// Returns the node with the most free CPU, then memory, as a scheduler unaware of tensors would.
pub(super) fn emptiest(
    cluster: &Cluster,
    function: &Function,
    configuration: &Configuration,
) -> Option<usize> {
    let free = |&(at, node): &(usize, &Node)| {
        (
            Reverse(node.free().cpu_millis),
            Reverse(node.free().memory_bytes),
            at,
        )
    };
    fitting(cluster, function, configuration)
        .min_by_key(free)
        .map(|(at, _)| at)
}

/// Returns the node with the least free CPU, to use up fragments first.
pub(super) fn fullest(
    cluster: &Cluster,
    function: &Function,
    configuration: &Configuration,
) -> Option<usize> {
    let free = |&(at, node): &(usize, &Node)| (node.free().cpu_millis, at);
    fitting(cluster, function, configuration)
        .min_by_key(free)
        .map(|(at, _)| at)
}

/// Returns the node on which the instance takes the least memory, and among equals the one with the
/// most free memory.
pub(super) fn cheapest(
    cluster: &Cluster,
    function: &Function,
    configuration: &Configuration,
) -> Option<usize> {
    let nodes = cluster.nodes().iter().enumerate();
    let fitting = nodes.filter_map(|(at, node)| {
        let takes = cluster.takes(at, function, configuration)?;
        Some((takes.memory_bytes, Reverse(node.free().memory_bytes), at))
    });
    fitting.min().map(|(_, _, at)| at)
}

/// Returns the node with the largest theta, and among equals the one with the most free memory
/// (Tetris 3.2).
pub(super) fn most_similar(
    cluster: &Cluster,
    function: &Function,
    configuration: &Configuration,
) -> Option<usize> {
    let thetas = thetas(cluster, function);
    let rank = |&(at, node): &(usize, &Node)| {
        let missing = thetas
            .get(at)
            .map_or(u64::MAX, |theta| theta.missing_bytes());
        (missing, Reverse(node.free().memory_bytes), at)
    };
    fitting(cluster, function, configuration)
        .min_by_key(rank)
        .map(|(at, _)| at)
}

/// Returns the node with the best score of similarity and room, and among equals the first.
pub(crate) fn best_score(
    cluster: &Cluster,
    function: &Function,
    configuration: &Configuration,
) -> Option<usize> {
    let thetas = thetas(cluster, function);
    let spread = Spread::default();
    let rank = |&(at, node): &(usize, &Node)| {
        let score = thetas
            .get(at)
            .map_or(0, |&theta| spread.score(theta, node.free(), node.all));
        (Reverse(score), at)
    };
    fitting(cluster, function, configuration)
        .min_by_key(rank)
        .map(|(at, _)| at)
}

/// Returns theta of each node. The inventory lists nodes by name, which is the order of their
/// indices.
fn thetas(cluster: &Cluster, function: &Function) -> Vec<Similarity> {
    let thetas = cluster.inventory().thetas(&function.tensors);
    thetas.iter().map(|(_, theta)| theta).collect()
}
