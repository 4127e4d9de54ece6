//! Filter: removes nodes without room for a model's tensors, in the store or on a GPU.

use std::collections::HashMap;

use tetris_scaler_core::Thetas;

use super::gpus::Gpus;
use super::nodes::{Form, by_name};
use super::wire::{ExtenderFilterResult, NodeList};
use crate::state::{FunctionState, Snapshot};
use crate::units::bytes;

/// Returns the nodes with room for the missing tensors of the function's model, and nodes without a
/// known inventory.
///
/// Nodes without room are unresolvable: otherwise the scheduler would preempt pods without knowing
/// the room that this frees.
pub fn filter(
    snapshot: &Snapshot,
    wanted: Option<&FunctionState>,
    nodes: Form,
) -> ExtenderFilterResult {
    let mut result = ExtenderFilterResult::default();
    let stores = wanted.map(|function| Stores::new(snapshot, function));
    let mut passes = |node: &str| {
        let fault = stores.as_ref().and_then(|stores| stores.fault(node));
        let Some(fault) = fault else {
            return true;
        };
        let failed = &mut result.failed_and_unresolvable_nodes;
        failed.insert(node.to_owned(), fault);
        false
    };
    match nodes {
        Form::Names(mut names) => {
            names.retain(|name| passes(name));
            result.node_names = Some(names);
        }
        Form::Full {
            metadata,
            mut nodes,
        } => {
            nodes.retain(|(name, _)| passes(name));
            let items = Some(nodes.into_iter().map(|(_, node)| node).collect());
            result.nodes = Some(NodeList { metadata, items });
        }
    }
    result
}

struct Stores<'a> {
    function: &'a FunctionState,
    thetas: Thetas<'a>,
    /// Room for tensors in bytes, of nodes with a known inventory.
    room: HashMap<&'a str, u64>,
    /// The GPUs, for a function that needs one.
    gpus: Option<Gpus<'a>>,
}

impl<'a> Stores<'a> {
    fn new(snapshot: &'a Snapshot, function: &'a FunctionState) -> Self {
        let nodes = by_name(snapshot).into_iter();
        let told = nodes.filter_map(|(name, node)| {
            let room = node.tensor_bytes?;
            let of_store = node.stores.get(&function.model.store);
            Some((name, of_store.map_or(room, |store| room.min(*store))))
        });
        Self {
            function,
            thetas: snapshot.inventory.thetas(&function.model.tensors),
            room: told.collect(),
            gpus: Gpus::new(snapshot, function),
        }
    }

    /// Returns the reason the node fails, or `None` if it passes.
    fn fault(&self, node: &str) -> Option<String> {
        let theta = self.thetas.of(node)?;
        let on_gpu = self.gpus.as_ref().and_then(|gpus| gpus.fault(node));
        if on_gpu.is_some() {
            return on_gpu;
        }
        let room = *self.room.get(node)?;
        let missing = theta.missing_bytes();
        if missing <= room {
            return None;
        }
        Some(format!(
            "the tensor store lacks {} for function {}: {} of its model's {} are missing, and {} are free",
            bytes(missing.saturating_sub(room).into()),
            self.function.function.name,
            bytes(missing.into()),
            bytes(theta.total_bytes.into()),
            bytes(room.into()),
        ))
    }
}
