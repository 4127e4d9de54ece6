//! Instances that functions start.

use std::collections::BTreeMap;

use super::{InstanceView, Phase, View};
use crate::placement::Shortage;

/// The reason a function is not in the plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unplaced {
    TooSmall(String, Shortage),
    Full(String, Shortage),
    Other(String),
}

/// Instances that a function starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Started {
    /// Number of instances by configuration.
    pub(super) counts: BTreeMap<usize, u32>,
    /// Number of instances by configuration, then by node as an index in the view.
    pub(super) nodes: BTreeMap<usize, BTreeMap<usize, u32>>,
    /// The reason the function was left out of the plan.
    pub(super) unplaced: Option<Unplaced>,
    /// True if the maximum prevented a start.
    pub(super) capped: bool,
}

impl Started {
    /// Returns true if an instance has no node.
    fn lacks_nodes(&self) -> bool {
        let placed = self.nodes.values().flat_map(BTreeMap::values);
        let placed: u64 = placed.map(|&count| u64::from(count)).sum();
        let counts = self.counts.values().map(|&count| u64::from(count));
        placed != counts.sum::<u64>()
    }
}

/// Returns the view's instances, and those that functions start on a node.
pub(super) fn with_placed(
    view: &View<'_>,
    started: &BTreeMap<usize, Started>,
) -> Vec<InstanceView> {
    let mut instances = view.instances.to_vec();
    for (&function, one) in started {
        for (&configuration, nodes) in &one.nodes {
            for (&node, &count) in nodes {
                instances.extend((0..count).map(|_| InstanceView {
                    name: String::new(),
                    function,
                    configuration: Some(configuration),
                    node: Some(node),
                    gpu: None,
                    phase: Phase::Starting,
                    load: None,
                    retiring: false,
                }));
            }
        }
    }
    instances
}

/// Returns the same if all that start have a node. One without may need any room there is.
pub(super) fn with_started(
    view: &View<'_>,
    started: &BTreeMap<usize, Started>,
) -> Option<Vec<InstanceView>> {
    let is_whole = !started.values().any(Started::lacks_nodes);
    is_whole.then(|| with_placed(view, started))
}
