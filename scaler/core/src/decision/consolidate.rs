//! Consolidation: cheaper instances for steady functions.

use std::collections::{BTreeMap, BTreeSet};

use super::beside::Beside;
use super::cluster::{Cluster, add, needs, positions};
use super::grow::room;
use super::parts::parts;
use super::started::Started;
use super::state::State;
use super::step::Step;
use super::totals::{Group, Groups, group, running, totals};
use super::{FunctionOutcome, Phase, Settings, View};
use crate::inventory::{Inventory, ModelTensors, Similarity};
use crate::placement::{Demand, Hosted, Node, Placed, PlacementProblem, place};
use crate::rate::Rate;
use crate::score::Resources;

/// Replacement of a function's instances.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Move {
    pub(super) started: Started,
    /// Instances that stop once the others are ready.
    pub(super) retiring: Vec<usize>,
}

/// Maximum number of plans; after each, functions that cannot follow it are left out.
const ROUNDS: usize = 4;

/// Input of consolidation.
pub(super) struct Site<'a> {
    pub(super) view: &'a View<'a>,
    pub(super) cluster: &'a Cluster<'a>,
    pub(super) states: &'a [State<'a>],
    pub(super) settings: &'a Settings,
}

/// Returns the replacements by function. There are none if they save too little. Of more functions than
/// one problem takes, the first part counts that saves enough.
pub(super) fn consolidate(site: &Site<'_>, steps: &[Step]) -> BTreeMap<usize, Move> {
    let all = site.states.iter().zip(steps).enumerate();
    let steady = all.filter(|(_, (state, step))| may_move(state, step));
    let most = site.settings.part_functions as usize;
    let parts = parts(site.view, steady.map(|(at, _)| at), most);
    let mut partial = parts.into_iter().map(|part| together(site, part));
    partial.find(|moves| !moves.is_empty()).unwrap_or_default()
}

fn together(site: &Site<'_>, part: Vec<usize>) -> BTreeMap<usize, Move> {
    let mut members: BTreeSet<usize> = part.into_iter().collect();
    for _ in 0..ROUNDS {
        let Some(plan) = site.plan(&members) else {
            return BTreeMap::new();
        };
        let moves = site.moves(&members, &plan);
        if !site.is_worth(&members, &moves) {
            return BTreeMap::new();
        }
        let blocked = site.blocked(&moves);
        if blocked.is_empty() {
            return moves;
        }
        members.retain(|member| !blocked.contains(member));
    }
    BTreeMap::new()
}

fn may_move(state: &State<'_>, step: &Step) -> bool {
    let others = [
        &state.starting,
        &state.failing,
        &state.retiring,
        &state.outdated,
    ];
    let placed = |&at: &usize| {
        state
            .instance(at)
            .is_some_and(|instance| instance.node.is_some())
    };
    *step == Step::Keep(FunctionOutcome::Steady)
        && state.view.consolidate
        && others.iter().all(|list| list.is_empty())
        && !state.ready.is_empty()
        && state.ready.iter().all(placed)
        && state.peak().is_some_and(|peak| !peak.is_zero())
        && !needs_gpu(state)
}

/// Returns true for a function with GPUs: a replacement would load the model into device memory a
/// second time, and warm up again, to save host memory.
fn needs_gpu(state: &State<'_>) -> bool {
    let usable = state.usable.as_ref();
    usable.is_ok_and(|usable| usable.gpu_types().next().is_some())
}

impl Site<'_> {
    /// Plans the best places for the members' instances. The plan ignores resident tensors, as
    /// unused ones are freed.
    fn plan(&self, members: &BTreeSet<usize>) -> Option<Groups> {
        if members.is_empty() {
            return None;
        }
        let stay = self.staying(members);
        let all = members.iter().copied().collect();
        let most = self.settings.part_functions as usize;
        let beside = Beside::new(self.view, all, stay, most);
        let functions = &beside.functions;
        let (offered, mut nodes) = self.offer(members, functions)?;
        let (of_function, of_node) = (positions(functions), positions(&offered));
        beside.charge(self.view, self.cluster, &of_node, &mut nodes);
        let fixed = beside.fixed(&of_function, &of_node);
        let demands: Option<Vec<Demand>> = functions
            .iter()
            .map(|&function| self.demand(function, members.contains(&function)))
            .collect();
        let placement = place(&PlacementProblem {
            demands: &demands?,
            nodes: &nodes,
            inventory: &Inventory::default(),
            current: &self.current(members, &of_function, &of_node),
            fixed: &fixed,
            start_cost_bytes: self.settings.start_cost_bytes,
            max_trials: self.settings.max_trials as usize,
        });
        let placed = placement.ok()?.placed;
        let groups = placed.iter().filter_map(|entry| {
            let function = *functions.get(entry.model)?;
            let usable = self.states.get(function)?.usable.as_ref().ok()?;
            let group = Group {
                function,
                node: Some(*offered.get(entry.node)?),
                configuration: usable.all.get(entry.configuration)?.0,
            };
            Some((group, entry.count))
        });
        Some(groups.collect())
    }

    /// Returns functions that keep their tensors on nodes: all but the members.
    fn staying(&self, members: &BTreeSet<usize>) -> BTreeSet<Hosted> {
        let stay = self.view.instances.iter().filter(|instance| {
            instance.phase != Phase::Leaving
                && !members.contains(&instance.function)
                && instance.function < self.states.len()
        });
        let instances = stay.filter_map(|instance| {
            Some(Hosted {
                model: instance.function,
                node: instance.node?,
            })
        });
        instances.collect()
    }

    fn demand(&self, function: usize, member: bool) -> Option<Demand> {
        let state = self.states.get(function)?;
        let model = &state.view.model;
        let usable = state.usable.as_ref().ok().filter(|_| member);
        let profile = usable.and_then(super::usable::Usable::profile);
        let peak = state.peak().filter(|_| member);
        Some(Demand {
            name: function.to_string(),
            profile: profile.unwrap_or_else(|| model.profile.clone()),
            slo: model.slo,
            load: peak.map_or(Rate::ZERO, |peak| state.view.scale_in.needed(peak)),
            tensors: model.tensors.clone(),
            store: self.cluster.store(&model.store),
            alpha_bytes_per_millicore: model.alpha_bytes_per_millicore,
        })
    }

    /// Returns the nodes as if no member ran there and no function had tensors there.
    fn offer(
        &self,
        members: &BTreeSet<usize>,
        functions: &[usize],
    ) -> Option<(Vec<usize>, Vec<Node>)> {
        let thetas = self.thetas_by_store(functions)?;
        let mut back = vec![Resources::default(); self.view.nodes.len()];
        for (at, instance) in self.view.instances.iter().enumerate() {
            let member = members.contains(&instance.function) && instance.phase != Phase::Leaving;
            let node = instance.node.filter(|_| member);
            if let Some(back) = node.and_then(|node| back.get_mut(node)) {
                add(back, needs(self.view, at).unwrap_or_default());
            }
        }
        let offer = self
            .cluster
            .offered(&[], self.settings.empty_nodes as usize);
        let reserve = self.settings.reserve_permille;
        let ranks = offer.taken.iter().map(|&rank| (rank, 0));
        let ranks = ranks.chain(offer.empty.iter().map(|&rank| (rank, reserve)));
        let ranks: BTreeMap<usize, u32> = ranks.collect();
        let nodes = ranks.into_iter().filter_map(|(rank, reserve)| {
            let at = self.cluster.at(rank)?;
            let mut free = self.cluster.free(at);
            add(&mut free, *back.get(at)?);
            let mut node = self.cluster.plan_node(at, free, reserve)?;
            for (store, thetas) in &thetas {
                node.give_back(*store, thetas.get(rank)?.resident_bytes);
            }
            Some((at, node))
        });
        Some(nodes.unzip())
    }

    /// Returns theta of all tensors of the functions by store, then by rank.
    fn thetas_by_store(&self, functions: &[usize]) -> Option<BTreeMap<usize, Vec<Similarity>>> {
        let mut objects: BTreeMap<usize, Vec<_>> = BTreeMap::new();
        for state in functions.iter().filter_map(|&at| self.states.get(at)) {
            let model = &state.view.model;
            let of_store = objects.entry(self.cluster.store(&model.store)).or_default();
            of_store.extend_from_slice(model.tensors.objects());
        }
        let thetas = objects.into_iter().map(|(store, objects)| {
            let union = ModelTensors::try_new(objects).ok()?;
            Some((store, self.cluster.thetas(&union)))
        });
        thetas.collect()
    }

    fn current(
        &self,
        members: &BTreeSet<usize>,
        of_function: &BTreeMap<usize, usize>,
        of_node: &BTreeMap<usize, usize>,
    ) -> Vec<Placed> {
        let states = members.iter().filter_map(|&at| self.states.get(at));
        let groups = states.flat_map(|state| {
            let usable = state.usable.as_ref().ok();
            let groups = state.groups(self.view).into_iter();
            groups.filter_map(move |(group, count)| {
                let all = &usable?.all;
                let configuration = all.binary_search_by_key(&group.configuration, |(at, _)| *at);
                Some(Placed {
                    model: *of_function.get(&group.function)?,
                    node: *of_node.get(&group.node?)?,
                    configuration: configuration.ok()?,
                    gpu: None,
                    count,
                })
            })
        });
        groups.collect()
    }

    /// Returns the differences from the plan by function: additional instances start, superfluous
    /// ones retire. Only functions that start an instance are listed.
    fn moves(&self, members: &BTreeSet<usize>, plan: &Groups) -> BTreeMap<usize, Move> {
        let mut moves = BTreeMap::new();
        for &function in members {
            let Some(state) = self.states.get(function) else {
                continue;
            };
            let now = state.groups(self.view);
            let mut moved = Move::default();
            for (group, &count) in plan.iter().filter(|(group, _)| group.function == function) {
                let more = count.saturating_sub(now.get(group).copied().unwrap_or(0));
                if let (Some(node), true) = (group.node, more > 0) {
                    let started = &mut moved.started;
                    *started.counts.entry(group.configuration).or_default() += more;
                    let nodes = started.nodes.entry(group.configuration).or_default();
                    nodes.insert(node, more);
                }
            }
            for (gone, &count) in &now {
                let less = count.saturating_sub(plan.get(gone).copied().unwrap_or(0));
                let same = |at: &usize| group(self.view, *at) == Some(*gone);
                let here: Vec<usize> = state.ready.iter().copied().filter(same).collect();
                let here = state.least_loaded_first(&here);
                moved.retiring.extend(here.into_iter().take(less as usize));
            }
            if !moved.started.counts.is_empty() && !moved.retiring.is_empty() {
                moved.retiring = state.least_loaded_first(&moved.retiring);
                moves.insert(function, moved);
            }
        }
        moves
    }

    /// Returns true if the moves save the configured share, and at least the cost of the starts.
    fn is_worth(&self, members: &BTreeSet<usize>, moves: &BTreeMap<usize, Move>) -> bool {
        let before = running(self.view, |_| true);
        let mut after = before.clone();
        let mut starts = 0_u128;
        for (&function, one) in moves {
            let gone = one.retiring.iter().filter_map(|&at| group(self.view, at));
            for gone in gone {
                if let Some(count) = after.get_mut(&gone) {
                    *count = count.saturating_sub(1);
                }
            }
            for (&configuration, nodes) in &one.started.nodes {
                for (&node, &count) in nodes {
                    let group = Group {
                        function,
                        node: Some(node),
                        configuration,
                    };
                    *after.entry(group).or_default() += count;
                    starts += u128::from(count);
                }
            }
        }
        after.retain(|_, count| *count > 0);
        let rest = running(self.view, |function| !members.contains(&function));
        let [before, after, rest] = [before, after, rest].map(|all| totals(self.view, &all).cost);
        let saved = before.saturating_sub(after);
        let least = before.saturating_sub(rest) * u128::from(self.settings.saving_permille) / 1_000;
        let paid = starts * u128::from(self.settings.start_cost_bytes);
        !moves.is_empty() && saved > 0 && saved >= least && saved >= paid
    }

    /// Returns functions with moves that their bounds or the nodes do not allow beside the running
    /// instances.
    fn blocked(&self, moves: &BTreeMap<usize, Move>) -> BTreeSet<usize> {
        let mut left: BTreeMap<usize, Node> = BTreeMap::new();
        let mut blocked = BTreeSet::new();
        for (&function, one) in moves {
            let Some(state) = self.states.get(function) else {
                continue;
            };
            let started: u32 = one.started.counts.values().sum();
            let retiring = super::state::count(one.retiring.len());
            let after = state
                .active()
                .saturating_add(started)
                .saturating_sub(retiring);
            let fits = started <= room(state) && after >= state.min();
            if !fits || !self.start_beside(function, one, &mut left) {
                blocked.insert(function);
            }
        }
        blocked
    }

    /// Takes the resources of the starts from the free ones. Returns true if there was enough.
    fn start_beside(&self, function: usize, one: &Move, left: &mut BTreeMap<usize, Node>) -> bool {
        let Some(state) = self.states.get(function) else {
            return false;
        };
        let mut loaded = BTreeSet::new();
        let mut fits = true;
        for (&configuration, nodes) in &one.started.nodes {
            let needs = state.view.model.profile.configurations().get(configuration);
            for (&at, &count) in nodes {
                let free = self.cluster.free(at);
                let node = self.cluster.plan_node(at, free, 0);
                let (Some(needs), Some(node)) = (needs, node) else {
                    return false;
                };
                let node = left.entry(at).or_insert(node);
                let theta = self
                    .view
                    .inventory
                    .theta(&state.view.model.tensors, &node.name);
                let missing = theta.map_or(state.view.model.tensors.total_bytes(), |theta| {
                    theta.missing_bytes()
                });
                let missing = if loaded.insert(at) { missing } else { 0 };
                let count = u64::from(count);
                let needs = Resources {
                    cpu_millis: needs.cpu_millis().saturating_mul(count),
                    memory_bytes: needs.own_bytes().saturating_mul(count),
                };
                let store = self.cluster.store(&state.view.model.store);
                // Members have no GPU.
                let may_start = node.accepts_new && !node.gpus_only;
                fits &= may_start && node.take(needs, store, missing);
            }
        }
        fits
    }
}
