//! Nodes, and the tensors in their stores.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use tetris_scaler_core::{
    GpuType, GpuView, Inventory, InventoryLimits, MAX_GPUS, MAX_NODES, ModelTensors, NodeView,
    Resources,
};
use tetris_store_layout::ObjectId;

use super::documents::{Documents, FoundDocument, PlanNode};
use super::error::PlanError;
use super::functions::Function;
use super::page::Stored;
use crate::nodes::{bytes, millis};
use crate::resources::FieldProblem;

/// Nodes with their inventory, and notes on ignored input.
#[derive(Debug)]
pub(super) struct Nodes {
    pub(super) nodes: Vec<NodeView>,
    pub(super) inventory: Inventory,
    pub(super) notes: Vec<String>,
}

impl Nodes {
    /// Reads the nodes of `documents`, without regard to pods.
    pub(super) fn read(documents: &Documents, functions: &[Function]) -> Result<Self, PlanError> {
        let limits = InventoryLimits {
            nodes: MAX_NODES,
            ..InventoryLimits::default()
        };
        let mut all = Self {
            nodes: Vec::new(),
            inventory: Inventory::new(limits),
            notes: Vec::new(),
        };
        for FoundDocument { at, object } in &documents.nodes {
            all.nodes.push(node(at, object)?);
        }
        for FoundDocument { at, object } in &documents.plan_nodes {
            for (index, planned) in object.nodes.iter().enumerate() {
                let field = |name: &str| format!("nodes[{index}].{name}");
                let group = group(planned, functions).map_err(|(name, problem)| {
                    let problem = FieldProblem::new(field(name), problem);
                    PlanError::Field {
                        at: at.clone(),
                        problem,
                    }
                })?;
                group.add_to(&mut all)?;
            }
        }
        all.check()?;
        for stored in &documents.stored {
            all.record(stored)?;
        }
        Ok(all)
    }

    fn check(&self) -> Result<(), PlanError> {
        let problem = match self.nodes.len() {
            0 => "no node is given; add Nodes or PlanNodes with -f".to_owned(),
            found if found > MAX_NODES => {
                format!("found {found} nodes, expected at most {MAX_NODES}")
            }
            _ => {
                let mut seen = BTreeSet::new();
                let twice = self.nodes.iter().find(|node| !seen.insert(&node.name));
                let Some(twice) = twice else {
                    return Ok(());
                };
                format!("node {} is given twice; leave one out", twice.name)
            }
        };
        Err(PlanError::Missing { problem })
    }

    fn record(&mut self, stored: &Stored) -> Result<(), PlanError> {
        let mut nodes = self.nodes.iter_mut();
        let Some(node) = nodes.find(|node| node.name == stored.node) else {
            self.notes.push(format!(
                "{}: ignored the inventory of node {}, as that node is not given",
                stored.at, stored.node
            ));
            return Ok(());
        };
        let room = stored.page.room.as_ref();
        node.tensor_bytes = room.map(|room| room.free_bytes);
        node.stores = room.map(|room| room.stores.clone()).unwrap_or_default();
        node.gpus = stored.page.gpus.iter().map(|gpu| gpu.view(None)).collect();
        self.inventory
            .set_node(&stored.node, &stored.page.objects)?;
        Ok(())
    }

    /// Returns the indices of nodes by name.
    pub(super) fn by_name(&self) -> BTreeMap<&str, usize> {
        let nodes = self.nodes.iter().enumerate();
        nodes
            .map(|(index, node)| (node.name.as_str(), index))
            .collect()
    }

    /// Subtracts a pod's resources from its node.
    pub(super) fn take(&mut self, node: usize, takes: Resources) {
        if let Some(node) = self.nodes.get_mut(node) {
            let free = &mut node.free;
            free.cpu_millis = free.cpu_millis.saturating_sub(takes.cpu_millis);
            free.memory_bytes = free.memory_bytes.saturating_sub(takes.memory_bytes);
        }
    }
}

fn node(at: &str, node: &Node) -> Result<NodeView, PlanError> {
    let status = node.status.as_ref();
    let allocatable = status.and_then(|status| status.allocatable.as_ref());
    let read = |name: &str, parse: fn(&str) -> Option<u64>| {
        let field = format!("status.allocatable.{name}");
        let quantity = allocatable
            .and_then(|all| all.get(name))
            .map(|q| q.0.as_str());
        quantity.and_then(parse).ok_or_else(|| {
            let found = quantity.unwrap_or_default();
            let problem = format!("found {found:?}, expected a quantity such as 16 or 64Gi");
            PlanError::Field {
                at: at.to_owned(),
                problem: FieldProblem::new(field, problem),
            }
        })
    };
    let all = Resources {
        cpu_millis: read("cpu", millis)?,
        memory_bytes: read("memory", bytes)?,
    };
    let cordoned = node.spec.as_ref().and_then(|spec| spec.unschedulable);
    Ok(NodeView {
        name: node.name_any(),
        all,
        free: all,
        tensor_bytes: None,
        stores: BTreeMap::new(),
        gpus: Vec::new(),
        gpus_only: false,
        accepts_new: !cordoned.unwrap_or(false),
    })
}

/// A group of equal nodes.
struct Group {
    names: Vec<String>,
    view: NodeView,
    has: Vec<ObjectId>,
}

type FieldFault = (&'static str, String);

fn group(node: &PlanNode, functions: &[Function]) -> Result<Group, FieldFault> {
    let mut resident = Vec::new();
    for model in &node.models {
        resident.extend(with_profile(model, functions)?);
    }
    let has: Vec<ObjectId> = resident.iter().map(|(id, _)| *id).collect();
    let taken = ModelTensors::try_new(resident).map_err(|error| ("models", error.to_string()))?;
    let taken = taken.total_bytes();
    let all = Resources {
        cpu_millis: node.cpu_millis,
        memory_bytes: node.memory_bytes,
    };
    let (field, size) = node
        .store_bytes
        .map_or(("memoryBytes", node.memory_bytes), |size| {
            ("storeBytes", size)
        });
    let Some(left) = size.checked_sub(taken) else {
        let problem = format!("found {size}, expected at least {taken} bytes for the models");
        return Err((field, problem));
    };
    let in_memory = node.store_bytes.is_none();
    let free = Resources {
        memory_bytes: if in_memory { left } else { node.memory_bytes },
        ..all
    };
    Ok(Group {
        names: names(node)?,
        view: NodeView {
            name: String::new(),
            all,
            free,
            tensor_bytes: (!in_memory).then_some(left),
            stores: BTreeMap::new(),
            gpus: gpus(node, functions)?,
            gpus_only: false,
            accepts_new: true,
        },
        has,
    })
}

fn gpus(node: &PlanNode, functions: &[Function]) -> Result<Vec<GpuView>, FieldFault> {
    let mut gpus = Vec::new();
    for gpu in &node.gpus {
        let kind = gpu
            .kind
            .parse::<GpuType>()
            .map_err(|error| ("gpus", error.to_string()))?;
        let Some(own_bytes) = gpu.memory_bytes.checked_sub(gpu.mirror_bytes) else {
            let problem = format!(
                "found mirrorBytes {}, expected at most memoryBytes, {}",
                gpu.mirror_bytes, gpu.memory_bytes
            );
            return Err(("gpus", problem));
        };
        let mut resident = BTreeSet::new();
        for model in &gpu.models {
            let objects = with_profile(model, functions);
            let objects = objects.map_err(|(_, problem)| ("gpus", problem))?;
            resident.extend(objects.into_iter().map(|(id, _)| id));
        }
        let resident = Arc::new(resident);
        for _ in 0..gpu.count.unwrap_or(1) {
            if gpus.len() >= MAX_GPUS {
                return Err(("gpus", format!("found more than {MAX_GPUS} GPUs")));
            }
            gpus.push(GpuView {
                uuid: format!("GPU-{}", gpus.len()),
                kind,
                tensor_bytes: gpu.mirror_bytes,
                own_bytes,
                resident: Arc::clone(&resident),
            });
        }
    }
    Ok(gpus)
}

fn names(node: &PlanNode) -> Result<Vec<String>, FieldFault> {
    match node.count {
        None => Ok(vec![node.name.clone()]),
        Some(count) if count as usize > MAX_NODES => {
            let problem = format!("found {count}, expected at most {MAX_NODES}");
            Err(("count", problem))
        }
        Some(count) => {
            let names = (0..count).map(|index| format!("{}-{index}", node.name));
            Ok(names.collect())
        }
    }
}

/// Returns the objects of all functions with the profile, which may be given with its namespace.
fn with_profile(profile: &str, functions: &[Function]) -> Result<Vec<(ObjectId, u64)>, FieldFault> {
    let is_meant = |function: &&Function| {
        function.profile.name == profile || function.profile.to_string() == profile
    };
    let mut meant = functions.iter().filter(is_meant).peekable();
    if meant.peek().is_none() {
        let problem = format!("found {profile:?}, expected the profile of a function");
        return Err(("models", problem));
    }
    let mut objects = Vec::new();
    for function in meant {
        let listed: BTreeSet<&ObjectId> = function.listed.iter().collect();
        let tensors = function.model.tensors.objects().iter();
        objects.extend(tensors.filter(|(id, _)| listed.contains(id)));
    }
    Ok(objects)
}

impl Group {
    fn add_to(self, all: &mut Nodes) -> Result<(), PlanError> {
        for name in self.names {
            if !self.has.is_empty() {
                all.inventory.set_node(&name, &self.has)?;
            }
            let view = self.view.clone();
            all.nodes.push(NodeView { name, ..view });
        }
        Ok(())
    }
}
