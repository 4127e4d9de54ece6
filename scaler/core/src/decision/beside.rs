//! Functions beside those that a plan places.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::View;
use super::cluster::Cluster;
use crate::inventory::ModelTensors;
use crate::placement::{Hosted, Node};
use crate::score::Resources;

/// Functions of a plan: its members, and others with tensors on nodes.
#[derive(Debug)]
pub(super) struct Beside {
    /// Members, then the others that the plan knows.
    pub(super) functions: Vec<usize>,
    /// Functions of the plan with tensors on nodes, as indices in the view.
    known: Vec<Hosted>,
    /// Those that the plan does not know.
    unknown: Vec<Hosted>,
}

impl Beside {
    /// Chooses which functions of `hosted` a plan for `members` knows: at most `most` beside the
    /// members, those first that share tensors with a member.
    pub(super) fn new(
        view: &View<'_>,
        members: Vec<usize>,
        hosted: BTreeSet<Hosted>,
        most: usize,
    ) -> Self {
        let member_set: BTreeSet<usize> = members.iter().copied().collect();
        let others: BTreeSet<usize> = hosted.iter().map(|hosted| hosted.model).collect();
        let mut others: Vec<usize> = others.difference(&member_set).copied().collect();
        if others.len() > most {
            let objects = members.iter().flat_map(|&member| objects(view, member));
            let objects: HashSet<_> = objects.map(|(id, _)| id).collect();
            let shares = |&other: &usize| {
                let mut of_other = self::objects(view, other).iter();
                of_other.any(|(id, _)| objects.contains(id))
            };
            others.sort_by_cached_key(|other| (!shares(other), *other));
            others.truncate(most);
        }
        let mut functions = members;
        functions.extend(others);
        let in_plan: BTreeSet<usize> = functions.iter().copied().collect();
        let entries = hosted.into_iter();
        let (known, unknown) = entries.partition(|entry| in_plan.contains(&entry.model));
        Self {
            functions,
            known,
            unknown,
        }
    }

    /// Returns the known functions with tensors on nodes, by the plan's numbers of functions and nodes.
    pub(super) fn fixed(
        &self,
        of_function: &BTreeMap<usize, usize>,
        of_node: &BTreeMap<usize, usize>,
    ) -> Vec<Hosted> {
        let instances = self.known.iter().filter_map(|entry| {
            Some(Hosted {
                model: *of_function.get(&entry.model)?,
                node: *of_node.get(&entry.node)?,
            })
        });
        instances.collect()
    }

    /// Takes the room of tensors that the unknown functions still bring to the plan's `nodes`.
    pub(super) fn charge(
        &self,
        view: &View<'_>,
        cluster: &Cluster<'_>,
        of_node: &BTreeMap<usize, usize>,
        nodes: &mut [Node],
    ) {
        let mut here: BTreeMap<usize, Vec<&ModelTensors>> = BTreeMap::new();
        for (one, is_known) in (self.known.iter().map(|entry| (entry, true)))
            .chain(self.unknown.iter().map(|unknown| (unknown, false)))
        {
            let model = view
                .functions
                .get(one.model)
                .map(|function| &function.model);
            let at = of_node.get(&one.node).filter(|_| !self.unknown.is_empty());
            let node = at.and_then(|&at| nodes.get_mut(at));
            let (Some(model), Some(node)) = (model, node) else {
                continue;
            };
            let others = here.entry(one.node).or_default();
            if !is_known {
                let inventory = view.inventory;
                let theta = inventory.theta_beside(&model.tensors, &node.name, others);
                let store = cluster.store(&model.store);
                node.take(Resources::default(), store, theta.missing_bytes());
            }
            others.push(&model.tensors);
        }
    }
}

fn objects<'a>(view: &View<'a>, function: usize) -> &'a [(tetris_store_layout::ObjectId, u64)] {
    let function = view.functions.get(function);
    function.map_or(&[][..], |function| function.model.tensors.objects())
}
