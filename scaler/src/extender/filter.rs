//! Which nodes have room.

use std::collections::BTreeMap;

use tetris_scaler_core::{Similarity, Thetas};

use super::cluster::{Cluster, Room, Wanted};
use super::nodes::Form;
use super::wire::{ExtenderFilterResult, NodeList};
use crate::units::bytes;

/// The nodes whose store has room for what is missing of the model, and of which nothing is known.
pub fn filter<C: Cluster>(
    cluster: &C,
    wanted: Option<&Wanted>,
    nodes: Form,
) -> ExtenderFilterResult {
    let mut result = ExtenderFilterResult::default();
    let verdict = Verdict::new(cluster, wanted);
    match nodes {
        Form::Names(names) => {
            let passes = |name: &String| verdict.passes(name, &mut result);
            result.node_names = Some(names.into_iter().filter(passes).collect());
        }
        Form::Full { metadata, nodes } => {
            let mut items = Vec::with_capacity(nodes.len());
            for (name, node) in nodes {
                if verdict.passes(&name, &mut result) {
                    items.push(node);
                }
            }
            let items = Some(items);
            result.nodes = Some(NodeList { metadata, items });
        }
    }
    result
}

struct Verdict<'a, C> {
    cluster: &'a C,
    wanted: Option<(&'a Wanted, Thetas<'a>)>,
}

impl<'a, C: Cluster> Verdict<'a, C> {
    fn new(cluster: &'a C, wanted: Option<&'a Wanted>) -> Self {
        let wanted = wanted.map(|wanted| (wanted, cluster.inventory().thetas(&wanted.tensors)));
        Self { cluster, wanted }
    }

    /// Says so in the result if it does not.
    fn passes(&self, node: &str, result: &mut ExtenderFilterResult) -> bool {
        let Some((map, message)) = self.fault(node, result) else {
            return true;
        };
        map.insert(node.to_owned(), message);
        false
    }

    fn fault<'r>(
        &self,
        node: &str,
        result: &'r mut ExtenderFilterResult,
    ) -> Option<(&'r mut BTreeMap<String, String>, String)> {
        let (wanted, thetas) = self.wanted.as_ref()?;
        // A node that has not told what it has passes.
        let theta = thetas.of(node)?;
        let room = self.cluster.room(node, &wanted.store)?;
        if theta.missing_bytes() <= room.available_bytes {
            return None;
        }
        // Other pods' tensors can be freed when those pods are gone; the store does not grow.
        let unresolvable = theta.total_bytes > room.capacity_bytes;
        let map = if unresolvable {
            &mut result.failed_and_unresolvable_nodes
        } else {
            &mut result.failed_nodes
        };
        Some((map, lacks(wanted, theta, room)))
    }
}

fn lacks(wanted: &Wanted, theta: Similarity, room: Room) -> String {
    let missing = theta.missing_bytes();
    format!(
        "tensor store {} lacks {} for model {}: {} of {} are not there, and there is room for {}",
        wanted.store,
        bytes(missing.saturating_sub(room.available_bytes).into()),
        wanted.model,
        bytes(missing.into()),
        bytes(theta.total_bytes.into()),
        bytes(room.available_bytes.into()),
    )
}
