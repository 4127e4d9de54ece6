//! Nodes by name, with their free resources.

use std::collections::{BTreeMap, BTreeSet};

use super::{NodeView, Phase, Settings, View};
use crate::gpu::{GpuNeeds, GpuRoom, GpuType, best_gpu};
use crate::inventory::{ModelTensors, Similarity};
use crate::numbered::Numbered as _;
use crate::placement::{Hosted, Node};
use crate::score::Resources;

/// Nodes of a view. A *rank* is a node's place in the order of names, so that results do not depend
/// on the order of the view.
#[derive(Debug)]
pub(super) struct Cluster<'a> {
    view: &'a View<'a>,
    /// Indices in the view, by rank.
    order: Vec<usize>,
    /// Ranks by index in the view; the fields below have the same index.
    ranks: Vec<usize>,
    /// Private resources of the instances on the node, in any phase.
    used: Vec<Resources>,
    instances: Vec<u32>,
    /// Room on GPUs beside the instances there, in any phase.
    gpus: Vec<Vec<GpuRoom>>,
    /// Names of the functions' stores, in order; a plan names them by the place here.
    stores: Vec<&'a str>,
}

impl<'a> Cluster<'a> {
    pub(super) fn of(view: &'a View<'a>) -> Self {
        let mut order: Vec<usize> = (0..view.nodes.len()).collect();
        order.sort_by_key(|&at| (view.nodes.at(at).name.as_str(), at));
        let mut ranks = vec![0; order.len()];
        for (rank, &at) in order.iter().enumerate() {
            *ranks.at_mut(at) = rank;
        }
        let stores = view
            .functions
            .iter()
            .map(|function| function.model.store.as_str());
        let stores: BTreeSet<&str> = stores.collect();
        let mut cluster = Self {
            view,
            stores: stores.into_iter().collect(),
            used: vec![Resources::default(); order.len()],
            instances: vec![0; order.len()],
            order,
            ranks,
            gpus: gpu_rooms(view),
        };
        for (at, instance) in view.instances.iter().enumerate() {
            let Some(node) = instance.node else { continue };
            let needs = needs(view, at).unwrap_or_default();
            if let Some(used) = cluster.used.get_mut(node) {
                add(used, needs);
            }
            if let Some(count) = cluster.instances.get_mut(node) {
                *count = count.saturating_add(1);
            }
        }
        cluster
    }

    /// Returns the index of the node with this rank.
    pub(super) fn at(&self, rank: usize) -> Option<usize> {
        self.order.get(rank).copied()
    }

    /// Returns the indices in the view, by name.
    pub(super) fn by_name(&self) -> impl Iterator<Item = usize> {
        self.order.iter().copied()
    }

    pub(super) fn rank(&self, node: usize) -> Option<usize> {
        self.ranks.get(node).copied()
    }

    pub(super) fn node(&self, at: usize) -> Option<&'a NodeView> {
        self.view.nodes.get(at)
    }

    /// Returns the free resources of a node.
    pub(super) fn free(&self, at: usize) -> Resources {
        let (free, used) = (self.view.nodes.at(at).free, self.used.at(at));
        Resources {
            cpu_millis: free.cpu_millis.saturating_sub(used.cpu_millis),
            memory_bytes: free.memory_bytes.saturating_sub(used.memory_bytes),
        }
    }

    /// Returns the number by which a plan names a store of a function.
    pub(super) fn store(&self, name: &str) -> usize {
        let place = self.stores.binary_search(&name);
        place.unwrap_or(usize::MAX)
    }

    /// Returns the room of the functions' stores on a node, by number.
    pub(super) fn store_rooms(&self, node: &NodeView) -> BTreeMap<usize, u64> {
        let rooms = node.stores.iter().filter_map(|(name, &room)| {
            let number = self.stores.binary_search(&name.as_str()).ok()?;
            Some((number, room))
        });
        rooms.collect()
    }

    /// Returns true if an instance has a node, or if a node that accepts new instances has room for
    /// its private resources.
    pub(super) fn has_room_for(&self, instance: usize) -> bool {
        let known_instance = self.view.instances.get(instance);
        let waits = known_instance.is_some_and(|instance| instance.node.is_none());
        let Some(needs) = needs(self.view, instance).filter(|_| waits) else {
            return true;
        };
        let of_gpu = gpu_needs(self.view, instance);
        self.by_name().any(|at| {
            let accepts_new = self
                .node(at)
                .is_some_and(|node| node.accepts_new && (of_gpu.is_some() || !node.gpus_only));
            let free = self.free(at);
            accepts_new
                && needs.cpu_millis <= free.cpu_millis
                && needs.memory_bytes <= free.memory_bytes
                && of_gpu.is_none_or(|(needs, tensors)| {
                    best_gpu(self.gpus(at), needs, tensors).is_some()
                })
        })
    }

    /// Returns theta of `tensors` by rank; zero for nodes that the inventory lacks.
    pub(super) fn thetas(&self, tensors: &ModelTensors) -> Vec<Similarity> {
        let thetas = self.view.inventory.thetas(tensors);
        let mut known = thetas.iter().peekable();
        let thetas = self.order.iter().map(|&at| {
            let name = self.node(at).map_or("", |node| node.name.as_str());
            // Both are sorted by name.
            while known.next_if(|(other, _)| *other < name).is_some() {}
            let same = known.peek().filter(|(other, _)| *other == name);
            same.map_or(
                Similarity {
                    resident_bytes: 0,
                    total_bytes: tensors.total_bytes(),
                },
                |(_, theta)| *theta,
            )
        });
        thetas.collect()
    }

    /// Returns the nodes to plan with: those with instances or, according to `has` by rank, with
    /// tensors, and the `empty` largest others.
    pub(super) fn offered(&self, has: &[bool], empty: usize) -> Offer {
        let (mut taken, mut others) = (BTreeSet::new(), Vec::new());
        for (rank, &at) in self.order.iter().enumerate() {
            let Some(node) = self.node(at) else { continue };
            let busy = *self.instances.at(at) > 0;
            if busy || has.get(rank).copied().unwrap_or(false) {
                taken.insert(rank);
            } else if node.accepts_new {
                let size = (node.all.cpu_millis, node.all.memory_bytes);
                others.push((std::cmp::Reverse(size), rank));
            }
        }
        if others.len() > empty {
            others.select_nth_unstable(empty);
            others.truncate(empty);
        }
        let empty: BTreeSet<usize> = others.into_iter().map(|(_, rank)| rank).collect();
        Offer { taken, empty }
    }

    /// Returns the nodes of a plan that accept instances, as indices in the view and as input of
    /// the plan: those in use or, according to `has` by rank, with tensors, and the largest empty
    /// ones with a reserve; or, if `widest`, all without a reserve.
    pub(super) fn offered_nodes(
        &self,
        has: &[bool],
        widest: bool,
        settings: &Settings,
    ) -> (Vec<usize>, Vec<Node>) {
        let (empty, reserve) = if widest {
            (usize::MAX, 0)
        } else {
            (settings.empty_nodes as usize, settings.reserve_permille)
        };
        let offer = self.offered(has, empty);
        let ranks = offer.taken.iter().map(|&rank| (rank, 0));
        let ranks = ranks.chain(offer.empty.iter().map(|&rank| (rank, reserve)));
        let ranks: BTreeMap<usize, u32> = ranks.collect();
        let nodes = ranks.into_iter().filter_map(|(rank, reserve)| {
            let at = self.at(rank)?;
            let node = self.plan_node(at, self.free(at), reserve)?;
            node.accepts_new.then_some((at, node))
        });
        nodes.unzip()
    }

    /// Returns a node for a plan, with `reserve_permille` of its CPU reserved.
    pub(super) fn plan_node(
        &self,
        at: usize,
        free: Resources,
        reserve_permille: u32,
    ) -> Option<Node> {
        let node = self.node(at)?;
        let all = u128::from(node.all.cpu_millis);
        let reserve = all * u128::from(reserve_permille) / 1_000;
        let reserve = u64::try_from(reserve).unwrap_or(u64::MAX);
        Some(Node {
            name: node.name.clone(),
            free: Resources {
                cpu_millis: free.cpu_millis.saturating_sub(reserve),
                ..free
            },
            tensor_bytes: node.tensor_bytes,
            stores: self.store_rooms(node),
            gpus: self.gpus(at).to_vec(),
            gpus_only: node.gpus_only,
            accepts_new: node.accepts_new,
        })
    }

    /// Returns the room on the GPUs of a node.
    pub(super) fn gpus(&self, at: usize) -> &[GpuRoom] {
        self.gpus.at(at)
    }

    /// Returns the types of the GPUs on nodes that accept new instances.
    pub(super) fn gpu_types(&self) -> BTreeSet<GpuType> {
        let nodes = self.view.nodes.iter().filter(|node| node.accepts_new);
        let gpus = nodes.flat_map(|node| &node.gpus);
        gpus.map(|gpu| gpu.kind).collect()
    }

    /// Returns by rank if the node has a GPU of one of these types.
    pub(super) fn with_gpus(&self, types: &BTreeSet<GpuType>) -> Vec<bool> {
        let has = |&at: &usize| {
            let gpus = self.node(at).map_or(&[][..], |node| node.gpus.as_slice());
            gpus.iter().any(|gpu| types.contains(&gpu.kind))
        };
        self.order.iter().map(has).collect()
    }

    /// Returns functions with tensors that may still be on their way to a node: those that are
    /// `planned`, those of instances that are not ready, and those on nodes that the inventory lacks. The
    /// node is an index in the view.
    pub(super) fn arriving(&self, planned: impl Fn(usize) -> bool) -> BTreeSet<Hosted> {
        let known: BTreeSet<&str> = self.view.inventory.nodes().collect();
        let entries = self.view.instances.iter().filter_map(|instance| {
            let node = instance.node?;
            let name = self.node(node)?.name.as_str();
            let starts = matches!(instance.phase, Phase::Starting | Phase::Failing);
            let late = starts || planned(instance.function);
            (late || !known.contains(name)).then_some(Hosted {
                model: instance.function,
                node,
            })
        });
        let functions = self.view.functions.len();
        entries.filter(|hosted| hosted.model < functions).collect()
    }
}

/// Nodes to plan with, by rank.
#[derive(Debug)]
pub(super) struct Offer {
    /// Nodes with instances or tensors.
    pub(super) taken: BTreeSet<usize>,
    /// Nodes without either.
    pub(super) empty: BTreeSet<usize>,
}

/// Returns the room on the GPUs of each node, by index in the view: what the instances there leave.
pub fn gpu_rooms(view: &View<'_>) -> Vec<Vec<GpuRoom>> {
    on_gpus(view).0
}

/// Returns the GPU of each instance on its node; `None` for one without a node or a GPU.
pub fn gpu_places(view: &View<'_>) -> Vec<Option<usize>> {
    on_gpus(view).1
}

/// Instances with a known GPU count there, the others where they would be placed, or on the first GPU
/// of their type if none has room.
fn on_gpus(view: &View<'_>) -> (Vec<Vec<GpuRoom>>, Vec<Option<usize>>) {
    let nodes = view.nodes.iter();
    let rooms = nodes.map(|node| node.gpus.iter().map(GpuRoom::of).collect());
    let mut rooms: Vec<Vec<GpuRoom>> = rooms.collect();
    let mut places = vec![None; view.instances.len()];
    for is_known in [true, false] {
        for (at, instance) in view.instances.iter().enumerate() {
            let gpus = instance.node.and_then(|node| rooms.get_mut(node));
            let (Some(gpus), Some((needs, tensors))) = (gpus, gpu_needs(view, at)) else {
                continue;
            };
            let of_type = |at: &usize| gpus.get(*at).is_some_and(|gpu| gpu.kind == needs.kind);
            let known = instance.gpu.filter(of_type);
            if known.is_some() != is_known {
                continue;
            }
            let any = || gpus.iter().position(|gpu| gpu.kind == needs.kind);
            let gpu = known
                .or_else(|| best_gpu(gpus, needs, tensors))
                .or_else(any);
            if let Some(place) = places.get_mut(at) {
                *place = gpu;
            }
            if let Some(gpu) = gpu.and_then(|gpu| gpus.get_mut(gpu)) {
                gpu.take(needs, tensors);
            }
        }
    }
    (rooms, places)
}

/// Returns an instance's needs on a GPU and its tensors there; `None` without a GPU.
pub(super) fn gpu_needs<'a>(
    view: &View<'a>,
    instance: usize,
) -> Option<(&'a GpuNeeds, &'a ModelTensors)> {
    let instance = view.instances.get(instance)?;
    let model = &view.functions.get(instance.function)?.model;
    let configuration = model
        .profile
        .configurations()
        .get(instance.configuration?)?;
    Some((configuration.gpu()?, &model.tensors))
}

/// Returns the private resources of an instance, or `None` if its configuration is unknown.
pub(super) fn needs(view: &View<'_>, instance: usize) -> Option<Resources> {
    let instance = view.instances.get(instance)?;
    let profile = &view.functions.get(instance.function)?.model.profile;
    let configuration = profile.configurations().get(instance.configuration?)?;
    Some(Resources {
        cpu_millis: configuration.cpu_millis(),
        memory_bytes: configuration.own_bytes(),
    })
}

pub(super) fn add(sum: &mut Resources, more: Resources) {
    sum.cpu_millis = sum.cpu_millis.saturating_add(more.cpu_millis);
    sum.memory_bytes = sum.memory_bytes.saturating_add(more.memory_bytes);
}

/// Returns the positions in a plan's list of nodes, by index in the view.
pub(super) fn positions(nodes: &[usize]) -> BTreeMap<usize, usize> {
    nodes
        .iter()
        .enumerate()
        .map(|(at, &node)| (node, at))
        .collect()
}
