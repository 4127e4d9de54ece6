//! Preferred nodes for new instances.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::cluster::Cluster;
use super::{FunctionModel, Preference, Settings};
use crate::configuration::Configuration;
use crate::gpu::best_gpu;
use crate::inventory::Similarity;
use crate::placement::Node;
use crate::score::Resources;

/// Returns for each starting configuration the nodes of the plan, with the highest score, then
/// other nodes with room for one instance, by [`Spread::score`](crate::Spread::score).
pub(super) fn prefer(
    cluster: &Cluster<'_>,
    model: &FunctionModel,
    start: &BTreeMap<usize, u32>,
    planned: &BTreeMap<usize, BTreeMap<usize, u32>>,
    settings: &Settings,
) -> BTreeMap<usize, Vec<Preference>> {
    if start.is_empty() {
        return BTreeMap::new();
    }
    let thetas = cluster.thetas(&model.tensors);
    let none = BTreeMap::new();
    let lists = start.keys().filter_map(|configuration| {
        let planned = planned.get(configuration).unwrap_or(&none);
        let list = list(cluster, model, &thetas, *configuration, planned, settings)?;
        (!list.is_empty()).then_some((*configuration, list))
    });
    lists.collect()
}

fn list(
    cluster: &Cluster<'_>,
    model: &FunctionModel,
    thetas: &[Similarity],
    configuration: usize,
    planned: &BTreeMap<usize, u32>,
    settings: &Settings,
) -> Option<Vec<Preference>> {
    let configuration = model.profile.configurations().get(configuration)?;
    let chosen = planned.iter().map(|(&node, &planned)| Preference {
        node,
        score: 1_000,
        planned,
    });
    let mut list: Vec<Preference> = chosen.collect();
    list.sort_by_key(|preference| (Reverse(preference.planned), cluster.rank(preference.node)));
    let others = cluster.by_name().zip(thetas).filter_map(|(at, &theta)| {
        let score = score(cluster, at, (model, theta), configuration, settings)?;
        (!planned.contains_key(&at)).then_some((Reverse(score), at))
    });
    let mut others: Vec<_> = others.collect();
    let most = settings.preferred_nodes as usize;
    let rank = |&(score, at): &(Reverse<u32>, usize)| (score, cluster.rank(at));
    if others.len() > most {
        others.select_nth_unstable_by_key(most, rank);
        others.truncate(most);
    }
    others.sort_by_key(rank);
    let others = others.into_iter().map(|(Reverse(score), node)| Preference {
        node,
        score,
        planned: 0,
    });
    list.extend(others);
    list.truncate(most.max(planned.len()));
    Some(list)
}

/// Returns the score, at most 999, or `None` without room for an instance.
fn score(
    cluster: &Cluster<'_>,
    at: usize,
    (model, theta): (&FunctionModel, Similarity),
    one: &Configuration,
    settings: &Settings,
) -> Option<u32> {
    let (node, free) = (cluster.node(at)?, cluster.free(at));
    let needs = Resources {
        cpu_millis: one.cpu_millis(),
        memory_bytes: one.own_bytes(),
    };
    let mut room = Node {
        name: String::new(),
        free,
        tensor_bytes: node.tensor_bytes,
        stores: node
            .stores
            .get(&model.store)
            .map(|&room| (0, room))
            .into_iter()
            .collect(),
        gpus: Vec::new(),
        gpus_only: false,
        accepts_new: node.accepts_new,
    };
    let may_start = node.accepts_new && (one.gpu().is_some() || !node.gpus_only);
    let fits = may_start && room.take(needs, 0, theta.missing_bytes());
    let theta = match one.gpu() {
        None => theta,
        Some(needs) => {
            let gpus = cluster.gpus(at);
            let best = best_gpu(gpus, needs, &model.tensors)?;
            theta.with(gpus.get(best)?.similarity(&model.tensors))
        }
    };
    fits.then(|| settings.spread.score(theta, free, node.all).min(999))
}
