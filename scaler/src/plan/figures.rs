//! Resources of the instances, by node.

use std::collections::{BTreeMap, BTreeSet};

use tetris_scaler_core::{Configuration, Inventory, ModelTensors, Placed};

use super::functions::Function;

/// Resources of a node's instances.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct NodeFigures {
    /// Indices of the placements on this node.
    pub(super) placed: Vec<usize>,
    pub(super) instances: u64,
    pub(super) cpu_millis: u128,
    pub(super) own_bytes: u128,
    /// Size of their models' tensors, each counted once.
    pub(super) tensor_bytes: u128,
    /// Bytes of these tensors that are already on the node.
    pub(super) there_bytes: u128,
    /// Bytes that private copies of the tensors would add.
    pub(super) saved_bytes: u128,
}

/// Resources of all instances.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Figures {
    pub(super) instances: u64,
    pub(super) nodes: usize,
    pub(super) cpu_millis: u128,
    pub(super) own_bytes: u128,
    pub(super) tensor_bytes: u128,
    /// Cost: `memory + alpha cpu`.
    pub(super) cost: u128,
}

impl Figures {
    pub(super) const fn memory_bytes(&self) -> u128 {
        self.own_bytes.saturating_add(self.tensor_bytes)
    }
}

/// Input for measuring a placement; `configuration` returns a configuration by function and index.
pub(super) struct Measured<'a, F> {
    pub(super) functions: &'a [Function],
    pub(super) inventory: &'a Inventory,
    pub(super) node_name: &'a dyn Fn(usize) -> &'a str,
    pub(super) configuration: F,
}

impl<'a, F> Measured<'a, F>
where
    F: Fn(usize, usize) -> Option<&'a Configuration>,
{
    /// Returns the resources of each node's instances; nodes without instances are left out.
    pub(super) fn by_node(&self, placed: &[Placed]) -> BTreeMap<usize, NodeFigures> {
        let mut nodes: BTreeMap<usize, NodeFigures> = BTreeMap::new();
        let mut models: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
        for (index, item) in placed.iter().enumerate() {
            let function = self.functions.get(item.model);
            let configuration = (self.configuration)(item.model, item.configuration);
            let (Some(function), Some(configuration)) = (function, configuration) else {
                continue;
            };
            let count = u128::from(item.count);
            let node = nodes.entry(item.node).or_default();
            node.placed.push(index);
            node.instances = node.instances.saturating_add(item.count.into());
            node.cpu_millis += u128::from(configuration.cpu_millis()) * count;
            node.own_bytes += u128::from(configuration.own_bytes()) * count;
            node.saved_bytes += u128::from(function.model.tensors.total_bytes()) * count;
            models.entry(item.node).or_default().insert(item.model);
        }
        let mut unions = BTreeMap::new();
        for (index, models) in models {
            if let Some(node) = nodes.get_mut(&index) {
                let union = unions
                    .entry(models)
                    .or_insert_with_key(|models| self.union(models));
                self.share(index, node, union.as_ref());
            }
        }
        nodes
    }

    fn share(&self, index: usize, node: &mut NodeFigures, union: Option<&ModelTensors>) {
        let Some(union) = union else {
            return;
        };
        let there = self.inventory.theta(union, (self.node_name)(index));
        node.tensor_bytes = union.total_bytes().into();
        node.there_bytes = there.map_or(0, |theta| theta.resident_bytes.into());
        // So far `saved_bytes` is the sum over instances.
        node.saved_bytes = node.saved_bytes.saturating_sub(node.tensor_bytes);
    }

    /// Returns the union of the models' tensors, or `None` if models disagree about an object's
    /// size. The decision reports that.
    fn union(&self, models: &BTreeSet<usize>) -> Option<ModelTensors> {
        let functions = models.iter().filter_map(|model| self.functions.get(*model));
        let objects = functions.flat_map(|function| function.model.tensors.objects());
        ModelTensors::try_new(objects.copied()).ok()
    }

    /// Returns the resources of all instances, with those in device memory: private memory there, and tensors
    /// once per node, as the decision counts them.
    pub(super) fn all(&self, placed: &[Placed]) -> Figures {
        let nodes = self.by_node(placed);
        let mut sum = Figures {
            nodes: nodes.len(),
            ..Figures::default()
        };
        for node in nodes.values() {
            sum.instances = sum.instances.saturating_add(node.instances);
            sum.cpu_millis += node.cpu_millis;
            sum.own_bytes += node.own_bytes;
            sum.tensor_bytes += node.tensor_bytes;
        }
        let mut on_gpus: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
        for item in placed {
            let function = self.functions.get(item.model);
            let alpha = function.map_or(0, |function| function.model.alpha_bytes_per_millicore);
            let configuration = (self.configuration)(item.model, item.configuration);
            let cpu = configuration.map_or(0, Configuration::cpu_millis);
            sum.cost += u128::from(alpha) * u128::from(cpu) * u128::from(item.count);
            if let Some(gpu) = configuration.and_then(Configuration::gpu) {
                sum.own_bytes += u128::from(gpu.own_bytes) * u128::from(item.count);
                on_gpus.entry(item.node).or_default().insert(item.model);
            }
        }
        let unions = on_gpus.values().filter_map(|models| self.union(models));
        sum.tensor_bytes += unions
            .map(|union| u128::from(union.total_bytes()))
            .sum::<u128>();
        sum.cost += sum.memory_bytes();
        sum
    }
}
