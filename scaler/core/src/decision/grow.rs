//! Growth: one plan for the starts of all functions that need more.

use std::collections::{BTreeMap, BTreeSet};

use super::beside::Beside;
use super::cluster::{Cluster, positions};
use super::parts::parts;
use super::started::{Started, with_placed};
use super::state::State;
use super::step::Growth;
use super::usable::Usable;
use super::{Settings, View};
use crate::gpu::GpuType;
use crate::inventory::Similarity;
use crate::placement::{Demand, Node, Placement, PlacementError, PlacementProblem, place};
use crate::rate::Rate;

/// A function in a plan.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) usable: Usable,
    pub(super) load: Rate,
    /// Least rate that will do if there is not enough room, or if the maximum allows no more.
    pub(super) least: Rate,
}

/// A plan under construction.
pub(super) struct Planner<'a> {
    view: &'a View<'a>,
    cluster: &'a Cluster<'a>,
    pub(super) states: &'a [State<'a>],
    settings: &'a Settings,
    /// Types of the GPUs that instances can start on.
    gpu_types: BTreeSet<GpuType>,
    /// Functions in the plan.
    pub(super) members: BTreeMap<usize, Member>,
    pub(super) started: BTreeMap<usize, Started>,
}

/// Plans all starts, by function. More functions than one problem takes are planned in parts, each on
/// what those before it leave.
pub(super) fn grow(
    view: &View<'_>,
    cluster: &Cluster<'_>,
    states: &[State<'_>],
    growths: &BTreeMap<usize, Growth>,
    settings: &Settings,
) -> BTreeMap<usize, Started> {
    let most = settings.part_functions as usize;
    let mut parts = parts(view, growths.keys().copied(), most).into_iter();
    let first = of_part(growths, &parts.next().unwrap_or_default());
    let mut started = grow_together(view, cluster, states, &first, settings);
    for part in parts {
        let instances = with_placed(view, &started);
        let view = View {
            instances: &instances,
            ..*view
        };
        let part = of_part(growths, &part);
        let cluster = Cluster::of(&view);
        started.extend(grow_together(&view, &cluster, states, &part, settings));
    }
    started
}

fn of_part(growths: &BTreeMap<usize, Growth>, part: &[usize]) -> BTreeMap<usize, Growth> {
    let functions = part.iter();
    functions
        .filter_map(|&function| Some((function, *growths.get(&function)?)))
        .collect()
}

fn grow_together(
    view: &View<'_>,
    cluster: &Cluster<'_>,
    states: &[State<'_>],
    growths: &BTreeMap<usize, Growth>,
    settings: &Settings,
) -> BTreeMap<usize, Started> {
    let mut planner = Planner {
        view,
        cluster,
        states,
        settings,
        gpu_types: cluster.gpu_types(),
        members: BTreeMap::new(),
        started: BTreeMap::new(),
    };
    for (&function, growth) in growths {
        planner.join(function, growth);
    }
    planner.plan_within_maximum(growths);
    planner.started
}

impl Planner<'_> {
    fn join(&mut self, function: usize, growth: &Growth) {
        let Some(state) = self.states.get(function) else {
            return;
        };
        let Some(usable) = usable_on(state, &self.gpu_types) else {
            return;
        };
        let mut member = Member {
            usable: usable.clone(),
            load: growth.load,
            least: growth.least,
        };
        // Express a number of instances as a load that this number of the cheapest carries.
        let cheapest = usable.cheapest(state.view.model.alpha_bytes_per_millicore);
        if let Some((at, one)) = cheapest.filter(|_| growth.instances > 0) {
            let load = one.rate().times(growth.instances.into());
            if load >= growth.load {
                member = Member {
                    usable: Usable::only((at, one)),
                    load,
                    least: load,
                };
            }
        }
        self.members.insert(function, member);
    }

    /// Plans. A function that starts more than its maximum allows does without the headroom to grow, and if that is
    /// not enough gets its fastest configuration; each time all is planned anew.
    fn plan_within_maximum(&mut self, growths: &BTreeMap<usize, Growth>) {
        let mut capped = BTreeSet::new();
        loop {
            // Planning may leave members out.
            let members = self.members.clone();
            self.started.clear();
            self.plan();
            let beyond: Vec<usize> = self.beyond_maximum().collect();
            self.members = members;
            let mut has_changed = false;
            for function in beyond {
                if self.settle_for_least(function) {
                    has_changed = true;
                } else if capped.insert(function) {
                    self.cap(function);
                    has_changed = true;
                }
            }
            if !has_changed {
                break;
            }
        }
        self.top_up(growths);
        for function in capped {
            self.started.entry(function).or_default().capped = true;
        }
    }

    /// Makes a member ask for no more than the least that will do. Reports whether that is less than before.
    pub(super) fn settle_for_least(&mut self, function: usize) -> bool {
        let member = self.members.get_mut(&function);
        member.is_some_and(|member| {
            let less = member.least < member.load;
            member.load = member.least;
            less
        })
    }

    fn beyond_maximum(&self) -> impl Iterator<Item = usize> {
        let beyond = self.started.iter().filter(|(function, started)| {
            let count: u32 = started.counts.values().sum();
            let state = self.states.get(**function);
            state.is_some_and(|state| count > room(state))
        });
        beyond.map(|(&function, _)| function)
    }

    /// Limits a function to the fastest configuration, up to its maximum.
    fn cap(&mut self, function: usize) {
        let (Some(member), Some(state)) =
            (self.members.get_mut(&function), self.states.get(function))
        else {
            return;
        };
        let usable = usable_on(state, &self.gpu_types);
        if let Some((at, one)) = usable.and_then(|usable| usable.fastest()) {
            let most = one.rate().times(room(state).into());
            member.load = member.load.min(most);
            member.least = member.least.min(most);
            member.usable = Usable::only((at, one));
        }
    }

    /// Adds instances of the cheapest configuration to functions below their minimum.
    fn top_up(&mut self, growths: &BTreeMap<usize, Growth>) {
        for (&function, growth) in growths {
            let Some(state) = self.states.get(function) else {
                continue;
            };
            let usable = usable_on(state, &self.gpu_types);
            let alpha = state.view.model.alpha_bytes_per_millicore;
            let cheapest = usable.and_then(|usable| usable.cheapest(alpha));
            let started = self.started.entry(function).or_default();
            let count: u32 = started.counts.values().sum();
            let more = growth.instances.min(room(state)).saturating_sub(count);
            if let Some((at, _)) = cheapest.filter(|_| more > 0) {
                let count = started.counts.entry(at).or_default();
                *count = count.saturating_add(more);
            }
        }
    }

    /// Places all members. A member without room gets instances without a node, selected for it
    /// alone.
    fn plan(&mut self) {
        let mut widest = false;
        while !self.members.is_empty() {
            match self.attempt(widest) {
                Ok(()) => return,
                Err(_) if !widest => widest = true,
                Err(error) if self.content_with_less(&error) => {}
                Err(error) => self.leave_out(error),
            }
        }
    }

    /// Makes one plan: on nodes in use and the largest empty ones with a reserve, or on all nodes
    /// without a reserve.
    fn attempt(&mut self, widest: bool) -> Result<(), PlacementError> {
        let members = &self.members;
        let arriving = self
            .cluster
            .arriving(|function| members.contains_key(&function));
        let members: Vec<usize> = self.members.keys().copied().collect();
        let most = self.settings.part_functions as usize;
        let beside = Beside::new(self.view, members, arriving, most);
        let functions = &beside.functions;
        let demands: Vec<Demand> = functions
            .iter()
            .filter_map(|&function| self.demand(function))
            .collect();
        let (offered, mut nodes) = self.offer(widest);
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
        })?;
        self.take(&placement, functions, &offered);
        Ok(())
    }

    /// Returns the demand of a function, named by its number; zero if it is not a member.
    fn demand(&self, function: usize) -> Option<Demand> {
        let model = &self.states.get(function)?.view.model;
        let member = self.members.get(&function);
        let profile = member.and_then(|member| member.usable.profile());
        Some(Demand {
            name: function.to_string(),
            profile: profile.unwrap_or_else(|| model.profile.clone()),
            slo: model.slo,
            load: member.map_or(Rate::ZERO, |member| member.load),
            tensors: model.tensors.clone(),
            store: self.cluster.store(&model.store),
            alpha_bytes_per_millicore: model.alpha_bytes_per_millicore,
        })
    }

    /// Returns the nodes as indices in the view, and as input of the plan.
    fn offer(&self, widest: bool) -> (Vec<usize>, Vec<Node>) {
        let mut has = vec![false; self.view.nodes.len()];
        for function in self.members.keys() {
            let Some(state) = self.states.get(*function) else {
                continue;
            };
            let thetas: Vec<Similarity> = self.cluster.thetas(&state.view.model.tensors);
            for (has, theta) in has.iter_mut().zip(thetas) {
                *has |= theta.resident_bytes > 0;
            }
        }
        let members = self.members.values();
        let types = members
            .flat_map(|member| member.usable.gpu_types())
            .collect();
        for (has, with_gpu) in has.iter_mut().zip(self.cluster.with_gpus(&types)) {
            *has |= with_gpu;
        }
        self.cluster.offered_nodes(&has, widest, self.settings)
    }

    fn take(&mut self, placement: &Placement, functions: &[usize], offered: &[usize]) {
        for item in &placement.placed {
            let function = functions.get(item.model);
            let (Some(&function), Some(&node)) = (function, offered.get(item.node)) else {
                continue;
            };
            let member = self.members.get(&function);
            let Some((configuration, _)) =
                member.and_then(|member| member.usable.all.get(item.configuration))
            else {
                continue;
            };
            let started = self.started.entry(function).or_default();
            let count = started.counts.entry(*configuration).or_default();
            *count = count.saturating_add(item.count);
            let nodes = started.nodes.entry(*configuration).or_default();
            let count = nodes.entry(node).or_default();
            *count = count.saturating_add(item.count);
        }
    }
}

/// Returns the usable configurations of a function that can start on these types of GPUs. If there
/// are none it returns all, so that the plan reports what the nodes lack.
fn usable_on(state: &State<'_>, types: &BTreeSet<GpuType>) -> Option<Usable> {
    let usable = state.usable.as_ref().ok()?;
    let there = usable.with_gpus(types);
    let none = there.all.is_empty();
    Some(if none { usable.clone() } else { there })
}

/// Returns the number of instances that the maximum still allows.
pub(super) fn room(state: &State<'_>) -> u32 {
    state.view.max_instances.saturating_sub(state.live())
}
