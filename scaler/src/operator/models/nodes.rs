//! Choice of the nodes for a model. Purely.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tetris_store_layout::Digest;

use crate::operator::records::NodeRecord;
use crate::resources::ModelNodes;
use crate::state::Key;

/// State of a model on nodes, by which some are preferred.
#[derive(Debug)]
pub(super) struct Known<'a> {
    /// Nodes that the model has been given, of those that have its content.
    pub(super) given: BTreeSet<&'a str>,
    /// Nodes on which a pod has it, in this content or in that of before.
    pub(super) present: BTreeSet<&'a str>,
    /// Nodes that the plan has for its functions, and those of their instances.
    pub(super) of_functions: BTreeSet<&'a str>,
    /// Bytes of its tensors on nodes, e.g. of a base that other models share.
    pub(super) resident: &'a BTreeMap<String, u64>,
}

/// The nodes that should have a model; `None` for all with the labels, which its DaemonSet finds by itself.
pub(super) fn nodes_for(
    model: &Key,
    wanted: &ModelNodes,
    known: &Known<'_>,
    nodes: &BTreeMap<Key, Arc<NodeRecord>>,
) -> Option<BTreeSet<String>> {
    if wanted.count.is_none() && !wanted.with_functions {
        return None;
    }
    let has_labels = |node: &NodeRecord| {
        let mut labels = wanted.match_labels.iter();
        labels.all(|(name, value)| node.labels.get(name) == Some(value))
    };
    let matching: Vec<_> = nodes.values().filter(|node| has_labels(node)).collect();
    let mut chosen: BTreeSet<String> = if wanted.with_functions {
        let planned = matching.iter().map(|node| &node.name);
        let planned = planned.filter(|node| known.of_functions.contains(node.as_str()));
        planned.cloned().collect()
    } else {
        BTreeSet::new()
    };
    let mut others: Vec<_> = matching
        .iter()
        .filter(|node| !chosen.contains(&node.name) && !node.is_lost)
        .collect();
    // Models spread over nodes, and a node that comes takes few of them.
    others.sort_by_key(|node| {
        let name = node.name.as_str();
        Reverse((
            known.present.contains(name),
            known.given.contains(name),
            node.accepts_new,
            known.resident.get(name),
            score(model, name),
        ))
    });
    let count = wanted.count.unwrap_or(0) as usize;
    chosen.extend(others.iter().take(count).map(|node| node.name.clone()));
    Some(chosen)
}

/// A number by which nodes are in another order for each model.
fn score(model: &Key, node: &str) -> [u8; 8] {
    let text = format!("{}\0{}\0{node}", model.namespace, model.name);
    let digest = Digest::of(text.as_bytes()).0;
    let mut score = [0; 8];
    score.copy_from_slice(digest.first_chunk::<8>().unwrap_or(&[0; 8]));
    score
}
