//! Nodes for gated pods of other owners that name their model.
//!
//! Such a pod prefers the nodes that have room for it and for the missing tensors of its model, by
//! the score that templates of functions have. The scheduler has the last word: the operator makes
//! no such pod anew, so it must not narrow one to a node that may refuse it.

use std::collections::{BTreeMap, BTreeSet};

use tetris_scaler_core::{
    FunctionModel, GpuNeeds, GpuRoom, NodeView, Resources, Settings, Thetas, View, gpu_rooms,
};

use super::memory::Memory;
use super::step::Step;
use crate::operator::node_views::node_views;
use crate::operator::observed::Observed;
use crate::operator::records::{ModelPod, NodeRecord, PodRecord};
use crate::placement::selects;

/// Maximum number of nodes that a pod prefers.
const MOST_PREFERRED: usize = 8;
/// Maximum number of pods of one look. The others follow with the next.
const MOST_PODS: usize = 64;

/// Returns the writes that open the gates of pods of other owners. A pod of an unknown model, or one for
/// which no node is known to have room, prefers none.
///
/// Pods of one look count for each other: each takes its resources from the node that it prefers most.
pub(super) fn preferences(
    observed: &Observed,
    view: &View<'_>,
    memory: &Memory,
    settings: &Settings,
    now: u64,
) -> Vec<Step> {
    let waiting = observed.pods.values().filter_map(|pod| {
        let model_pod = pod.model_pod.as_deref()?;
        (!memory.is_put_off(&model_pod.gate.uid)).then_some((pod.as_ref(), model_pod))
    });
    let waiting: Vec<_> = waiting.take(MOST_PODS).collect();
    if waiting.is_empty() {
        return Vec::new();
    }
    let models: Vec<Option<&FunctionModel>> = waiting
        .iter()
        .map(|(pod, model_pod)| model_of(observed, pod, model_pod))
        .collect();
    let stores = models.iter().flatten().map(|model| model.store.as_str());
    let mut cluster = Cluster {
        observed,
        settings,
        records: observed.nodes.values().map(AsRef::as_ref).collect(),
        nodes: node_views(
            observed,
            &BTreeSet::new(),
            &stores.collect(),
            &BTreeMap::new(),
        ),
        gpus: gpu_rooms(view),
    };
    let steps = waiting.iter().zip(models).map(|((pod, model_pod), model)| {
        let nodes = model.map(|model| cluster.best(pod, model_pod, model));
        Step::Prefer {
            pod: pod.key.clone(),
            gate: model_pod.gate.clone(),
            nodes: nodes.unwrap_or_default(),
            waited_ms: memory.waited(&model_pod.gate.uid, now),
        }
    });
    steps.collect()
}

/// Returns the model of the first function of the pod's namespace that uses its profile.
fn model_of<'a>(
    observed: &'a Observed,
    pod: &PodRecord,
    model_pod: &ModelPod,
) -> Option<&'a FunctionModel> {
    observed.functions.iter().find_map(|input| {
        let prepared = input.prepared.as_ref().ok()?;
        let is_of_pod = input.record.key.namespace == pod.key.namespace
            && prepared.function.profile == model_pod.profile;
        is_of_pod.then_some(prepared.model.as_ref())
    })
}

struct Cluster<'a> {
    observed: &'a Observed,
    settings: &'a Settings,
    records: Vec<&'a NodeRecord>,
    /// The same nodes with what all pods leave.
    nodes: Vec<NodeView>,
    /// Room on the GPUs of each node.
    gpus: Vec<Vec<GpuRoom>>,
}

impl Cluster<'_> {
    /// Returns the names of the best nodes with their weights, and takes the pod's resources from the
    /// first.
    fn best(
        &mut self,
        pod: &PodRecord,
        model_pod: &ModelPod,
        model: &FunctionModel,
    ) -> Vec<(String, i32)> {
        let thetas = self.observed.inventory.thetas(&model.tensors);
        let needs = gpu_needs(model);
        let mut scored: Vec<(u32, usize)> = (0..self.nodes.len())
            .filter(|&at| self.takes(at, pod, model_pod))
            .filter_map(|at| Some((self.score(at, model, &thetas, &needs)?, at)))
            .collect();
        scored.sort_unstable_by(|(a, a_at), (b, b_at)| b.cmp(a).then(a_at.cmp(b_at)));
        scored.truncate(MOST_PREFERRED);
        let first = scored.first().and_then(|(_, at)| self.nodes.get_mut(*at));
        if let Some(node) = first {
            let Resources {
                cpu_millis,
                memory_bytes,
            } = &mut node.free;
            *cpu_millis = cpu_millis.saturating_sub(pod.requests.cpu_millis);
            *memory_bytes = memory_bytes.saturating_sub(pod.requests.memory_bytes);
        }
        let named = scored.into_iter().filter_map(|(permille, at)| {
            // Scores reach 1,000.
            let weight = i32::try_from(permille / 10).ok()?.max(1);
            Some((self.nodes.get(at)?.name.clone(), weight))
        });
        named.collect()
    }

    /// Returns true if the node accepts new pods, the pod selects it, and its requests fit.
    fn takes(&self, at: usize, pod: &PodRecord, model_pod: &ModelPod) -> bool {
        let Some((node, record)) = self.nodes.get(at).zip(self.records.get(at)) else {
            return false;
        };
        node.accepts_new
            && node.free.cpu_millis >= pod.requests.cpu_millis
            && node.free.memory_bytes >= pod.requests.memory_bytes
            && selects(&model_pod.spec, &record.name, &record.labels)
    }

    /// Returns the node's score, or `None` if its store has no room for the missing tensors, or none of its
    /// GPUs for the model.
    fn score(
        &self,
        at: usize,
        model: &FunctionModel,
        thetas: &Thetas<'_>,
        needs: &[GpuNeeds],
    ) -> Option<u32> {
        let node = self.nodes.get(at)?;
        let mut theta = thetas.of(&node.name)?;
        let of_store = node.stores.get(&model.store);
        let room = node.tensor_bytes.into_iter().chain(of_store.copied()).min();
        if room.is_some_and(|room| theta.missing_bytes() > room) {
            return None;
        }
        if !needs.is_empty() {
            let gpus = self.gpus.get(at).into_iter().flatten();
            let fitting = gpus.filter(|gpu| needs.iter().any(|needs| fits(gpu, needs, model)));
            let similarities = fitting.map(|gpu| gpu.similarity(&model.tensors));
            theta = theta.with(similarities.max_by_key(|found| found.resident_bytes)?);
        }
        Some(self.settings.spread.score(theta, node.free, node.all))
    }
}

/// Returns the needs of the configurations with a GPU that the function may use.
fn gpu_needs(model: &FunctionModel) -> Vec<GpuNeeds> {
    let configurations = model.profile.configurations().iter().enumerate();
    configurations
        .filter(|(at, _)| model.allowed.is_empty() || model.allowed.contains(at))
        .filter_map(|(_, configuration)| configuration.gpu().copied())
        .collect()
}

fn fits(gpu: &GpuRoom, needs: &GpuNeeds, model: &FunctionModel) -> bool {
    let (room, _) = gpu.of_tensors(&model.tensors);
    let lacks = gpu.lacks(needs, room);
    gpu.kind == needs.kind && (lacks.bytes, lacks.share_permille) == (0, 0)
}
