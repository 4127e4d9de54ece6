//! Total resources of instances.

use std::collections::{BTreeMap, BTreeSet};

use tetris_store_layout::ObjectId;

use super::state::State;
use super::usable::Usable;
use super::{Decision, Phase, Totals, View};
use crate::cost::{MemoryTerm, Weights};
use crate::exact::solve;
use crate::inventory::ModelTensors;

/// Instances of a function in a configuration on a node, or on an unknown node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Group {
    pub(super) function: usize,
    pub(super) node: Option<usize>,
    pub(super) configuration: usize,
}

/// Number of instances by group.
pub(super) type Groups = BTreeMap<Group, u32>;

impl Decision {
    /// Returns the resources of the remaining and starting instances, on the nodes of the plan.
    /// Instances without a node count the tensors of their function once. Instances of
    /// configurations outside the profile do not count.
    pub fn totals(&self, view: &View<'_>) -> Totals {
        let mut groups = running(view, |_| true);
        for (function, decision) in self.functions.iter().enumerate() {
            for at in decision.release.iter().chain(&decision.retiring) {
                if let Some(group) = group(view, *at) {
                    less(&mut groups, group);
                }
            }
            for (&configuration, &count) in &decision.start {
                let of = decision.preferred.get(&configuration);
                let planned = of
                    .into_iter()
                    .flatten()
                    .map(|preferred| (preferred.node, preferred.planned));
                let mut left = count;
                for (node, planned) in planned {
                    let planned = planned.min(left);
                    left = left.saturating_sub(planned);
                    more(&mut groups, function, Some(node), configuration, planned);
                }
                more(&mut groups, function, None, configuration, left);
            }
        }
        Totals {
            lower_bound: lower_bound(view),
            ..totals(view, &groups)
        }
    }
}

/// Returns the instances of the functions that `of` selects, without those that leave.
pub(super) fn running(view: &View<'_>, of: impl Fn(usize) -> bool) -> Groups {
    let mut groups = Groups::new();
    for (at, instance) in view.instances.iter().enumerate() {
        if let Some(group) = group(view, at).filter(|_| of(instance.function)) {
            more(
                &mut groups,
                group.function,
                group.node,
                group.configuration,
                1,
            );
        }
    }
    groups
}

/// Returns the group of an instance, or `None` if it leaves or its configuration is outside the
/// profile.
pub(super) fn group(view: &View<'_>, at: usize) -> Option<Group> {
    let instance = view.instances.get(at)?;
    let profile = &view.functions.get(instance.function)?.model.profile;
    let configuration = instance.configuration?;
    let known = instance.phase != Phase::Leaving && configuration < profile.configurations().len();
    known.then_some(Group {
        function: instance.function,
        node: instance.node,
        configuration,
    })
}

fn more(groups: &mut Groups, function: usize, node: Option<usize>, configuration: usize, by: u32) {
    if by > 0 {
        let group = Group {
            function,
            node,
            configuration,
        };
        let count = groups.entry(group).or_default();
        *count = count.saturating_add(by);
    }
}

fn less(groups: &mut Groups, group: Group) {
    if let Some(count) = groups.get_mut(&group) {
        *count = count.saturating_sub(1);
        if *count == 0 {
            groups.remove(&group);
        }
    }
}

/// Returns their resources, without the lower bound.
pub(super) fn totals(view: &View<'_>, groups: &Groups) -> Totals {
    let mut sum = Totals::default();
    // Functions by node, and those of them in device memory.
    let mut hosted: BTreeMap<(Option<usize>, bool), BTreeSet<usize>> = BTreeMap::new();
    for (group, &count) in groups {
        let Some(function) = view.functions.get(group.function) else {
            continue;
        };
        let profile = function.model.profile.configurations();
        let Some(one) = profile.get(group.configuration) else {
            continue;
        };
        let alpha = u128::from(function.model.alpha_bytes_per_millicore);
        let cpu = u128::from(one.cpu_millis()) * u128::from(count);
        sum.cpu_millis += cpu;
        sum.cost += alpha * cpu;
        sum.memory_bytes += u128::from(one.private_bytes()) * u128::from(count);
        sum.instances = sum.instances.saturating_add(count.into());
        hosted
            .entry((group.node, false))
            .or_default()
            .insert(group.function);
        if one.gpu().is_some() {
            let on_gpus = hosted.entry((group.node, true)).or_default();
            on_gpus.insert(group.function);
        }
    }
    // Many nodes have the same set of functions.
    let mut sets: BTreeMap<BTreeSet<usize>, u128> = BTreeMap::new();
    for set in hosted.into_values() {
        let count = sets.entry(set).or_default();
        *count += 1;
    }
    let tensors = sets
        .iter()
        .map(|(set, count)| union_bytes(view, set) * count);
    sum.memory_bytes += tensors.sum::<u128>();
    sum.cost += sum.memory_bytes;
    sum
}

fn union_bytes(view: &View<'_>, functions: &BTreeSet<usize>) -> u128 {
    let models = functions.iter().filter_map(|&at| view.functions.get(at));
    let mut models = models.map(|function| &function.model.tensors);
    if functions.len() == 1 {
        return models.next().map_or(0, |entry| entry.total_bytes().into());
    }
    let objects = models.flat_map(ModelTensors::objects);
    let union: BTreeMap<ObjectId, u64> = objects.copied().collect();
    union.into_values().map(u128::from).sum()
}

/// Sum of the optima for private memory of each function, and each needed tensor once.
fn lower_bound(view: &View<'_>) -> u128 {
    let (mut own, mut busy) = (0, BTreeSet::new());
    for (at, function) in view.functions.iter().enumerate() {
        let model = &function.model;
        let load = function.load.unwrap_or_default();
        let load = function.scale_in.residual(load, crate::rate::Rate::ZERO);
        let weights = Weights::try_new(model.alpha_bytes_per_millicore, MemoryTerm::Own);
        let usable = Usable::of(model).ok().and_then(|usable| usable.profile());
        let (Ok(weights), Some(profile)) = (weights, usable) else {
            continue;
        };
        if let Ok(solution) =
            solve(&profile, model.slo, load, weights).map(|solve| solve.lower_bound)
        {
            own += solution;
            if !load.is_zero() {
                busy.insert(at);
            }
        }
    }
    own + union_bytes(view, &busy)
}

impl State<'_> {
    /// Returns the ready instances by group.
    pub(super) fn groups(&self, view: &View<'_>) -> Groups {
        let mut groups = Groups::new();
        for &at in &self.ready {
            if let Some(group) = group(view, at) {
                let count = groups.entry(group).or_default();
                *count = count.saturating_add(1);
            }
        }
        groups
    }
}
