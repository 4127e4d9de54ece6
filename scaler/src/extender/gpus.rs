//! GPUs of nodes from the view of one function.

use std::collections::HashMap;

use tetris_scaler_core::{GpuNeeds, GpuRoom, GpuShortage, Similarity};

use crate::state::{FunctionState, Snapshot};
use crate::units::bytes;

/// The configurations with a GPU that a function may use, and the GPUs of the nodes.
pub(super) struct Gpus<'a> {
    function: &'a FunctionState,
    needs: Vec<GpuNeeds>,
    of_node: HashMap<&'a str, &'a [GpuRoom]>,
}

impl<'a> Gpus<'a> {
    /// Returns `None` for a function without GPUs.
    pub(super) fn new(snapshot: &'a Snapshot, function: &'a FunctionState) -> Option<Self> {
        let model = &function.model;
        let all = model.profile.configurations().iter().enumerate();
        let allowed = all.filter(|(at, _)| model.allowed.is_empty() || model.allowed.contains(at));
        let needs: Vec<GpuNeeds> = allowed
            .filter_map(|(_, configuration)| configuration.gpu().copied())
            .collect();
        if needs.is_empty() {
            return None;
        }
        let nodes = snapshot.nodes.iter().zip(snapshot.gpus.iter());
        let named = nodes.map(|(node, gpus)| (node.name.as_str(), gpus.as_slice()));
        Some(Self {
            function,
            needs,
            of_node: named.collect(),
        })
    }

    /// Returns each GPU of a node that is of a type of the function, with the needs there.
    fn usable(&self, node: &str) -> impl Iterator<Item = (&'a GpuRoom, &GpuNeeds)> {
        let gpus = self.of_node.get(node).copied().unwrap_or_default();
        gpus.iter().flat_map(move |gpu| {
            let of_type = self
                .needs
                .iter()
                .filter(move |entry| entry.kind == gpu.kind);
            of_type.map(move |needs| (gpu, needs))
        })
    }

    /// Returns the reason no GPU of the node takes an instance, or `None` if one does.
    pub(super) fn fault(&self, node: &str) -> Option<String> {
        let tensors = &self.function.model.tensors;
        let lacking = self.usable(node).map(|(gpu, needs)| {
            let (room, _) = gpu.of_tensors(tensors);
            gpu.lacks(needs, room)
        });
        let least = lacking.min_by_key(|lacks| (lacks.bytes, lacks.share_permille));
        let name = &self.function.function.name;
        match least {
            Some(GpuShortage {
                bytes: 0,
                share_permille: 0,
            }) => None,
            Some(GpuShortage {
                bytes: 0,
                share_permille,
            }) => Some(format!(
                "no GPU has time left for function {name}: {share_permille} thousandths are missing"
            )),
            Some(lacks) => Some(format!(
                "no GPU has room for function {name}: {} of device memory are missing",
                bytes(lacks.bytes.into())
            )),
            None => {
                let mut types: Vec<&str> =
                    self.needs.iter().map(|need| need.kind.as_str()).collect();
                types.sort_unstable();
                types.dedup();
                let types = types.join(", ");
                Some(format!(
                    "the node's daemon has no GPU for function {name}, expected one of: {types}"
                ))
            }
        }
    }

    /// Returns the share of the model that the best GPU of the node has.
    pub(super) fn similarity(&self, node: &str) -> Similarity {
        let tensors = &self.function.model.tensors;
        let each = self.usable(node).map(|(gpu, _)| gpu.similarity(tensors));
        let best = each.max_by_key(|entry| entry.resident_bytes);
        best.unwrap_or(Similarity {
            resident_bytes: 0,
            total_bytes: tensors.total_bytes(),
        })
    }
}
