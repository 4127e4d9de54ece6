//! Nodes with what is free for the functions.

use std::collections::{BTreeMap, BTreeSet};

use tetris_scaler_core::{FunctionView, GpuView, InstanceView, NodeView, Resources};
use tetris_store_layout::ObjectId;

use super::observed::Observed;
use crate::nodes::Room;
use crate::state::Key;

/// Tensors of instances, each with its bytes, by index of the node and of its GPU.
pub(super) type HeldOnGpus = BTreeMap<(usize, usize), BTreeMap<ObjectId, u64>>;

/// Returns the tensors that instances have on their GPUs.
pub(super) fn held_on_gpus(functions: &[FunctionView], instances: &[InstanceView]) -> HeldOnGpus {
    let mut gpus_held = HeldOnGpus::new();
    let mut seen = BTreeSet::new();
    for instance in instances {
        let (Some(node), Some(gpu)) = (instance.node, instance.gpu) else {
            continue;
        };
        let function = functions.get(instance.function);
        if let Some(function) = function.filter(|_| seen.insert((node, gpu, instance.function))) {
            let objects = function.model.tensors.objects().iter().copied();
            gpus_held.entry((node, gpu)).or_default().extend(objects);
        }
    }
    gpus_held
}

/// Returns the nodes with the resources that all pods leave but those that are `counted`, and with the
/// room of `stores`. `held` are the tensors of counted instances.
pub(super) fn node_views(
    observed: &Observed,
    counted: &BTreeSet<&Key>,
    stores: &BTreeSet<&str>,
    held: &HeldOnGpus,
) -> Vec<NodeView> {
    let mut taken: BTreeMap<&str, Resources> = BTreeMap::new();
    let others = observed.pods.values();
    for pod in others.filter(|pod| !pod.place().is_empty() && !counted.contains(&pod.key)) {
        let sum = taken.entry(pod.place()).or_default();
        sum.cpu_millis = sum.cpu_millis.saturating_add(pod.requests.cpu_millis);
        sum.memory_bytes = sum.memory_bytes.saturating_add(pod.requests.memory_bytes);
    }
    let views = observed.nodes.values().enumerate().map(|(at, node)| {
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
            gpus: gpus(observed, &node.name, |gpu| held.get(&(at, gpu))),
            gpus_only: node.gpus_only,
            accepts_new: node.accepts_new,
        }
    });
    views.collect()
}

/// Returns the room of those `stores` that the node has.
fn of_stores(room: &Room, stores: &BTreeSet<&str>) -> BTreeMap<String, u64> {
    let rooms = stores.iter().filter_map(|&store| {
        let bytes = room.stores.get(store)?;
        Some((store.to_owned(), *bytes))
    });
    rooms.collect()
}

/// Returns the GPUs of a node, without the tensors that instances hold.
fn gpus<'a>(
    observed: &Observed,
    node: &str,
    held: impl Fn(usize) -> Option<&'a BTreeMap<ObjectId, u64>>,
) -> Vec<GpuView> {
    let gpus = observed.gpus.get(node).map_or(&[][..], |gpus| &**gpus);
    let numbered = gpus.iter().enumerate();
    numbered.map(|(at, gpu)| gpu.view(held(at))).collect()
}
