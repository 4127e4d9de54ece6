//! Nodes for instances that exist and wait for one.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::beside::Beside;
use super::cluster::{Cluster, gpu_needs, needs, positions};
use super::parts::parts;
use super::{InstanceView, Phase, Settings, View};
use crate::configuration::Configuration;
use crate::gpu::best_gpu;
use crate::inventory::Similarity;
use crate::placement::{Demand, Hosted, Node, PlacementProblem, place};
use crate::profile::Profile;
use crate::rate::Slo;
use crate::score::Resources;

/// An instance that waits for a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Index of the instance in the view. Its node there is ignored.
    pub instance: usize,
    /// Node that the plan has for it, as an index in the view.
    pub planned: Option<usize>,
    /// Nodes that did not take it, as indices in the view.
    pub excluded: BTreeSet<usize>,
}

/// Place of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Index of the node in the view.
    pub node: usize,
    /// Index of the GPU on the node, for an instance that needs one.
    pub gpu: Option<usize>,
}

/// Returns a place for each waiting instance; `None` without a node that has room.
///
/// An instance gets its planned node if that still has room. The others are planned together, as
/// [`decide`](crate::decide) plans starts. If there is not room for all of them, or a node is
/// excluded, each gets the node that has most of its tensors, one after the other.
///
/// **Guarantees.** No node gets more than its free resources, no GPU more than its memory and time, or an instance that it does not
/// accept. An instance with a known configuration stays without a node only if no accepting node
/// that is not excluded has room beside the others.
pub fn assign(view: &View<'_>, waiting: &[Waiting], settings: &Settings) -> Vec<Option<Place>> {
    let mut instances = view.instances.to_vec();
    for entry in waiting {
        if let Some(instance) = instances.get_mut(entry.instance) {
            (instance.node, instance.gpu) = (None, None);
            instance.phase = Phase::Starting;
        }
    }
    let mut assignment = Assignment {
        places: vec![None; waiting.len()],
        waiting,
        settings,
    };
    assignment.as_planned(&of(view, &instances));
    assignment.mark(&mut instances);
    assignment.together(&of(view, &instances));
    assignment.mark(&mut instances);
    assignment.one_by_one(&of(view, &instances));
    assignment.places
}

fn of<'a>(view: &View<'a>, instances: &'a [InstanceView]) -> View<'a> {
    View { instances, ..*view }
}

struct Assignment<'a> {
    /// Places by waiting instance.
    places: Vec<Option<Place>>,
    waiting: &'a [Waiting],
    settings: &'a Settings,
}

impl Assignment<'_> {
    /// Writes the places so far into the instances.
    fn mark(&self, instances: &mut [InstanceView]) {
        for (one, place) in self.waiting.iter().zip(&self.places) {
            if let Some(instance) = instances.get_mut(one.instance) {
                instance.node = place.map(|place| place.node);
                instance.gpu = place.and_then(|place| place.gpu);
            }
        }
    }

    fn as_planned(&mut self, view: &View<'_>) {
        let mut rooms = Rooms::of(view);
        for (one, slot) in self.waiting.iter().zip(&mut self.places) {
            let planned = one.planned.filter(|node| !one.excluded.contains(node));
            *slot = planned.and_then(|node| rooms.take(one.instance, node));
        }
    }

    /// Plans all instances that wait without an excluded node, with a reserve on empty nodes, else
    /// without.
    fn together(&mut self, view: &View<'_>) {
        let mut groups: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
        for (at, (one, place)) in self.waiting.iter().zip(&self.places).enumerate() {
            let instance = view.instances.get(one.instance);
            let Some(instance) = instance.filter(|_| place.is_none() && one.excluded.is_empty())
            else {
                continue;
            };
            if let Some(configuration) = instance.configuration {
                let group = (instance.function, configuration);
                groups.entry(group).or_default().push(at);
            }
        }
        let functions: BTreeSet<usize> = groups.keys().map(|key| key.0).collect();
        let most = self.settings.part_functions as usize;
        let mut instances = view.instances.to_vec();
        for part in parts(view, functions, most) {
            let of_part = groups.iter().filter(|(key, _)| part.contains(&key.0));
            let of_part: Vec<_> = of_part.collect();
            for groups in of_part.chunks(most.max(1)) {
                let groups = groups.iter().map(|&(key, group)| (*key, group));
                self.mark(&mut instances);
                self.plan(&of(view, &instances), &groups.collect());
            }
        }
    }

    /// Plans groups on what is free.
    fn plan(&mut self, view: &View<'_>, groups: &GroupsOf<'_>) {
        let cluster = Cluster::of(view);
        let site = Site {
            view,
            cluster: &cluster,
            settings: self.settings,
        };
        let placed = [false, true]
            .into_iter()
            .find_map(|widest| site.plan(groups, widest));
        for (at, place) in placed.unwrap_or_default() {
            if let Some(slot) = self.places.get_mut(at) {
                *slot = Some(place);
            }
        }
    }

    fn one_by_one(&mut self, view: &View<'_>) {
        if self.places.iter().all(Option::is_some) {
            return;
        }
        let mut rooms = Rooms::of(view);
        let mut order: Vec<usize> = (0..self.waiting.len()).collect();
        order.retain(|&at| self.places.get(at).is_some_and(Option::is_none));
        // Large instances find room first.
        let size = |at: &usize| {
            let waiting = self
                .waiting
                .get(*at)
                .and_then(|waiting| needs(view, waiting.instance));
            waiting.map(|needs| (needs.cpu_millis, needs.memory_bytes))
        };
        order.sort_by_key(|at| (Reverse(size(at)), *at));
        for at in order {
            let (Some(one), Some(slot)) = (self.waiting.get(at), self.places.get_mut(at)) else {
                continue;
            };
            *slot = rooms.best(one, self.settings);
        }
    }
}

/// Waiting instances by function and configuration.
type GroupsOf<'a> = BTreeMap<(usize, usize), &'a Vec<usize>>;

/// Free resources of nodes, as instances take them.
struct Rooms<'a> {
    view: &'a View<'a>,
    cluster: Cluster<'a>,
    /// By index in the view.
    nodes: Vec<Node>,
    /// Functions whose tensors are on their way to a node, by node.
    hosted: BTreeMap<usize, BTreeSet<usize>>,
    /// Similarities by function, then by rank.
    thetas: BTreeMap<usize, Vec<Similarity>>,
    /// Numbers of the stores by function.
    stores: Vec<usize>,
}

impl<'a> Rooms<'a> {
    fn of(view: &'a View<'a>) -> Self {
        let cluster = Cluster::of(view);
        let all = 0..view.nodes.len();
        let nodes = all.filter_map(|at| cluster.plan_node(at, cluster.free(at), 0));
        let arriving = cluster.arriving(|_| true);
        let functions = view.functions.iter();
        let stores = functions.map(|function| cluster.store(&function.model.store));
        let mut rooms = Self {
            stores: stores.collect(),
            nodes: nodes.collect(),
            hosted: BTreeMap::new(),
            thetas: BTreeMap::new(),
            cluster,
            view,
        };
        // They take room, as they do in a plan.
        for Hosted { model, node } in arriving {
            let theta = rooms.theta(model, node);
            if let (Some(theta), Some(room)) = (theta, rooms.nodes.get_mut(node)) {
                let store = rooms.stores.get(model).copied().unwrap_or(usize::MAX);
                room.take(Resources::default(), store, theta.missing_bytes());
            }
            rooms.hosted.entry(node).or_default().insert(model);
        }
        rooms
    }

    /// Returns the share of the function's tensors that a node has or gets with those of others.
    fn theta(&mut self, function: usize, node: usize) -> Option<Similarity> {
        let tensors = &self.view.functions.get(function)?.model.tensors;
        if let Some(hosted) = self.hosted.get(&node) {
            let others = hosted
                .iter()
                .filter_map(|&other| self.view.functions.get(other));
            let others: Vec<_> = others.map(|other| &other.model.tensors).collect();
            let name = &self.view.nodes.get(node)?.name;
            return Some(self.view.inventory.theta_beside(tensors, name, &others));
        }
        let cluster = &self.cluster;
        let thetas = self.thetas.entry(function);
        let thetas = thetas.or_insert_with(|| cluster.thetas(tensors));
        thetas.get(cluster.rank(node)?).copied()
    }

    /// Takes the resources of an instance from a node. Returns its place if there was enough.
    fn take(&mut self, instance: usize, node: usize) -> Option<Place> {
        let function = self.view.instances.get(instance)?.function;
        let (needs, theta) = (needs(self.view, instance)?, self.theta(function, node)?);
        let store = self.stores.get(function).copied().unwrap_or(usize::MAX);
        let room = self.nodes.get_mut(node).filter(|room| room.accepts_new)?;
        let gpu = match gpu_needs(self.view, instance) {
            None if room.gpus_only => return None,
            None => None,
            Some((needs, tensors)) => Some((best_gpu(&room.gpus, needs, tensors)?, needs, tensors)),
        };
        let mut after = room.without_gpus();
        if !after.take(needs, store, theta.missing_bytes()) {
            return None;
        }
        after.gpus = std::mem::take(&mut room.gpus);
        if let Some((at, needs, tensors)) = gpu
            && let Some(gpu) = after.gpus.get_mut(at)
        {
            gpu.take(needs, tensors);
        }
        *room = after;
        self.hosted.entry(node).or_default().insert(function);
        let gpu = gpu.map(|(at, _, _)| at);
        Some(Place { node, gpu })
    }

    /// Returns the share of the function's tensors that a node, and its GPU that has most of them, have.
    fn similarity(&mut self, instance: usize, node: usize) -> Option<Similarity> {
        let function = self.view.instances.get(instance)?.function;
        let theta = self.theta(function, node)?;
        let Some((needs, tensors)) = gpu_needs(self.view, instance) else {
            return Some(theta);
        };
        let gpus = &self.nodes.get(node)?.gpus;
        let best = best_gpu(gpus, needs, tensors).and_then(|at| gpus.get(at));
        Some(best.map_or(theta, |gpu| theta.with(gpu.similarity(tensors))))
    }

    /// Takes the resources of an instance from the node with the highest score among those with
    /// room, and returns its place.
    fn best(&mut self, one: &Waiting, settings: &Settings) -> Option<Place> {
        let mut ranked: Vec<(Reverse<u32>, Option<usize>, usize)> = Vec::new();
        for at in 0..self.nodes.len() {
            if one.excluded.contains(&at) {
                continue;
            }
            let theta = self.similarity(one.instance, at)?;
            let free = self.nodes.get(at)?.free;
            let all = self.view.nodes.get(at)?.all;
            let score = settings.spread.score(theta, free, all);
            ranked.push((Reverse(score), self.cluster.rank(at), at));
        }
        ranked.sort_unstable();
        let mut ranked = ranked.into_iter().map(|(_, _, at)| at);
        ranked.find_map(|at| self.take(one.instance, at))
    }
}

/// Input of a plan for waiting instances.
struct Site<'a> {
    view: &'a View<'a>,
    cluster: &'a Cluster<'a>,
    settings: &'a Settings,
}

impl Site<'_> {
    /// Plans groups by function and configuration. Returns waiting instances with their places, or
    /// `None` if there is not room for all.
    fn plan(&self, groups: &GroupsOf<'_>, widest: bool) -> Option<Vec<(usize, Place)>> {
        let arriving = self.cluster.arriving(|_| true);
        let mut demands = Vec::new();
        let mut functions = Vec::new();
        for (&(function, configuration), group) in groups {
            demands.push(self.demand(function, Some(configuration), group.len())?);
            functions.push(function);
        }
        // Tensors of the others save memory too.
        let most = self.settings.part_functions as usize;
        let beside = Beside::new(self.view, functions, arriving, most);
        let functions = &beside.functions;
        for &function in functions.iter().skip(groups.len()) {
            demands.push(self.demand(function, None, 0)?);
        }
        let (offered, mut nodes) = self.offer(groups, widest);
        let (of_function, of_node) = (positions(functions), positions(&offered));
        beside.charge(self.view, self.cluster, &of_node, &mut nodes);
        let fixed = beside.fixed(&of_function, &of_node);
        let placement = place(&PlacementProblem {
            demands: &demands,
            nodes: &nodes,
            inventory: self.view.inventory,
            current: &[],
            fixed: &fixed,
            start_cost_bytes: self.settings.start_cost_bytes,
            max_trials: self.settings.max_trials as usize,
        });
        let placement = placement.ok()?;
        let mut rest: Vec<std::slice::Iter<'_, usize>> =
            groups.values().map(|group| group.iter()).collect();
        let mut assigned = Vec::new();
        for placed in &placement.placed {
            let (group, node) = (rest.get_mut(placed.model)?, *offered.get(placed.node)?);
            let gpu = placed.gpu;
            let some = group.by_ref().take(placed.count as usize);
            assigned.extend(some.map(|&at| (at, Place { node, gpu })));
        }
        Some(assigned)
    }

    /// Returns the demand for a number of instances of a configuration, or for none.
    fn demand(&self, function: usize, only: Option<usize>, count: usize) -> Option<Demand> {
        let model = &self.view.functions.get(function)?.model;
        let chosen: Option<Configuration> =
            only.and_then(|at| model.profile.configurations().get(at).copied());
        let profile = match chosen {
            Some(configuration) => Profile::try_new(vec![configuration]).ok()?,
            None => model.profile.clone(),
        };
        // The instances exist already, however slow they are.
        let slo = chosen.map_or(model.slo.us(), |entry| {
            entry.least_slo_us().max(model.slo.us())
        });
        Some(Demand {
            name: function.to_string(),
            profile,
            slo: Slo::try_from_us(slo).ok()?,
            load: chosen
                .map(|load| load.rate().times(count as u64))
                .unwrap_or_default(),
            tensors: model.tensors.clone(),
            store: self.cluster.store(&model.store),
            alpha_bytes_per_millicore: model.alpha_bytes_per_millicore,
        })
    }

    fn offer(&self, groups: &GroupsOf<'_>, widest: bool) -> (Vec<usize>, Vec<Node>) {
        let mut has = vec![false; self.view.nodes.len()];
        let mut types = BTreeSet::new();
        for (function, configuration) in groups.keys() {
            let Some(function) = self.view.functions.get(*function) else {
                continue;
            };
            let configuration_found = function.model.profile.configurations().get(*configuration);
            types.extend(
                configuration_found.and_then(|configuration| Some(configuration.gpu()?.kind)),
            );
            let thetas = self.cluster.thetas(&function.model.tensors);
            for (has, theta) in has.iter_mut().zip(thetas) {
                *has |= theta.resident_bytes > 0;
            }
        }
        for (has, with_gpu) in has.iter_mut().zip(self.cluster.with_gpus(&types)) {
            *has |= with_gpu;
        }
        self.cluster.offered_nodes(&has, widest, self.settings)
    }
}
