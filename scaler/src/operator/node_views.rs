//! Nodes with what is free for the functions.

use std::collections::{BTreeMap, BTreeSet};

use tetris_scaler_core::{NodeView, Resources};

use super::observed::Observed;
use crate::nodes::Room;
use crate::state::Key;

/// Returns the nodes with the resources that all pods leave but those that are `counted`, and with the
/// room of `stores`.
pub(super) fn node_views(
    observed: &Observed,
    counted: &BTreeSet<&Key>,
    stores: &BTreeSet<&str>,
) -> Vec<NodeView> {
    let mut taken: BTreeMap<&str, Resources> = BTreeMap::new();
    let others = observed.pods.values();
    for pod in others.filter(|pod| !pod.place().is_empty() && !counted.contains(&pod.key)) {
        let sum = taken.entry(pod.place()).or_default();
        sum.cpu_millis = sum.cpu_millis.saturating_add(pod.requests.cpu_millis);
        sum.memory_bytes = sum.memory_bytes.saturating_add(pod.requests.memory_bytes);
    }
    let each = observed.nodes.values().map(|node| {
        let taken = taken.get(node.name.as_str()).copied().unwrap_or_default();
        let all = node.allocatable;
        let free = Resources {
            cpu_millis: all.cpu_millis.saturating_sub(taken.cpu_millis),
            memory_bytes: all.memory_bytes.saturating_sub(taken.memory_bytes),
        };
        let room = observed.rooms.get(&node.name);
        NodeView {
            name: node.name.clone(),
            all,
            free,
            tensor_bytes: room.map(|room| room.free_bytes),
            stores: room.map_or_else(BTreeMap::new, |room| of_stores(room, stores)),
            accepts_new: node.accepts_new,
        }
    });
    each.collect()
}

/// Returns the room of those `stores` that the node has.
fn of_stores(room: &Room, stores: &BTreeSet<&str>) -> BTreeMap<String, u64> {
    let each = stores.iter().filter_map(|&store| {
        let bytes = room.stores.get(store)?;
        Some((store.to_owned(), *bytes))
    });
    each.collect()
}
