//! Steps of one look at the waiting pods, pure and without a clock.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tetris_scaler_core::{Place, Settings, View, Waiting, assign};

use super::memory::Memory;
use super::model_pods::preferences;
use super::step::Step;
use crate::operator::observed::Observed;
use crate::operator::records::PodRecord;
use crate::operator::view::Assembled;
use crate::placement::selects;
use crate::state::Key;

/// Time for which a pod without a planned node waits for its Deployment's plan and for its siblings,
/// in milliseconds.
const SETTLED_MS: u64 = 500;

/// Time for which a pod waits for others to leave its planned node, in milliseconds: those that an
/// update replaces.
const PATIENCE_MS: u64 = 5_000;

/// Returns the writes that are due at `now`, in monotonic milliseconds.
///
/// A gated pod of a function that cannot be decided on, or without a node that has room, is opened
/// without a node. Pods wait half a second for a missing plan, and 5 s for pods of an older template on
/// their planned node. A pod gets a planned node at once that pods being deleted fill: the scheduler
/// puts it there when they are gone.
pub fn steps(observed: &Observed, memory: &mut Memory, settings: &Settings, now: u64) -> Vec<Step> {
    memory.observe(observed, now);
    let observed = with_opened(observed, memory);
    let assembled = Assembled::new(&observed);
    let mut steps = replacements(&observed, memory);
    let gated = Gated::new(&observed, &assembled, memory, now);
    let view = View {
        functions: &assembled.functions,
        instances: &assembled.instances,
        nodes: &assembled.nodes,
        inventory: &observed.inventory,
    };
    let places = freed(&view, &assembled, &gated.waiting, settings);
    let mut placed: BTreeMap<&Key, (Option<Place>, &'static str)> = BTreeMap::new();
    let mut patient: BTreeSet<&Key> = BTreeSet::new();
    for ((pod, one), place) in gated.pods.iter().zip(&gated.waiting).zip(places) {
        let node = place.map(|place| place.node);
        let planned = one
            .planned
            .filter(|at| node != Some(*at) && !one.excluded.contains(at));
        if planned.is_some_and(|at| assembled.has_leaving(one.instance, at)) {
            patient.insert(&pod.key);
        }
        let reason = match node {
            None => "unplanned",
            Some(_) if node == one.planned => "planned",
            Some(_) => "chosen",
        };
        placed.insert(&pod.key, (place, reason));
    }
    for pod in observed.pods.values() {
        let Some(one) = &pod.instance else { continue };
        let Some(gate) = one.gate.clone().filter(|_| !memory.is_put_off(&one.uid)) else {
            continue;
        };
        let waited_ms = memory.waited(&one.uid, now);
        let (place, reason) = placed.get(&pod.key).copied().unwrap_or((None, "unplanned"));
        let node = place.and_then(|place| assembled.nodes.get(place.node));
        let least = if patient.contains(&pod.key) {
            PATIENCE_MS
        } else {
            SETTLED_MS
        };
        if reason == "planned" || waited_ms >= least {
            steps.push(Step::Open {
                pod: pod.key.clone(),
                gate,
                node: node.map(|node| node.name.clone()),
                gpu: node.and_then(|node| Some(node.gpus.get(place?.gpu?)?.uuid.clone())),
                reason,
                waited_ms,
            });
        }
    }
    steps.extend(preferences(&observed, &view, memory, settings, now));
    steps
}

/// Returns the places of waiting pods as [`assign`] does, and planned nodes also where only pods that are
/// being deleted, of the same function, are in the way.
fn freed(
    view: &View<'_>,
    assembled: &Assembled,
    waiting: &[Waiting],
    settings: &Settings,
) -> Vec<Option<Place>> {
    let places = assign(view, waiting, settings);
    let is_in_the_way = |one: &Waiting, place: Option<Place>| {
        one.planned.filter(|at| {
            place.is_none_or(|place| place.node != *at)
                && !one.excluded.contains(at)
                && assembled.has_deleted(one.instance, *at)
        })
    };
    let mut blocked = waiting.iter().zip(&places);
    if !blocked.any(|(entry, place)| is_in_the_way(entry, *place).is_some()) {
        return places;
    }
    let mut instances = view.instances.to_vec();
    for (instance, source) in instances.iter_mut().zip(&assembled.sources) {
        if source.is_leaving {
            instance.node = None;
        }
    }
    let without = View {
        instances: &instances,
        ..*view
    };
    let later = assign(&without, waiting, settings);
    let mut instances = view.instances.to_vec();
    let mut fixed = vec![None; waiting.len()];
    let all = waiting.iter().zip(&places).zip(&later).zip(&mut fixed);
    for (((one, place), later), fixed) in all {
        let planned = is_in_the_way(one, *place);
        let place = later.filter(|later| Some(later.node) == planned);
        let instance = instances.get_mut(one.instance);
        if let (Some(place), Some(instance)) = (place, instance) {
            *fixed = Some(place);
            (instance.node, instance.gpu) = (Some(place.node), place.gpu);
        }
    }
    // The others have what these leave.
    let rest = || {
        waiting
            .iter()
            .zip(&fixed)
            .filter(|(_, fixed)| fixed.is_none())
    };
    let others: Vec<Waiting> = rest().map(|(entry, _)| entry.clone()).collect();
    let beside = View {
        instances: &instances,
        ..*view
    };
    let mut others = assign(&beside, &others, settings).into_iter();
    let both = fixed
        .iter()
        .map(|fixed| fixed.or_else(|| others.next().flatten()));
    both.collect()
}

/// Returns the observations with the gates open that this replica opened a moment ago.
fn with_opened<'a>(observed: &'a Observed, memory: &Memory) -> Cow<'a, Observed> {
    let mut opened = Vec::new();
    for (key, pod) in observed.pods.iter() {
        let Some(one) = pod.instance.as_ref().filter(|entry| entry.gate.is_some()) else {
            continue;
        };
        if let Some(opening) = memory.opened(one) {
            let mut pod = pod.as_ref().clone();
            if let Some(one) = &mut pod.instance {
                (one.gate, one.assigned) = (None, opening.node.clone());
                one.gpu = opening.gpu.clone().or_else(|| one.gpu.take());
            }
            opened.push((key.clone(), Arc::new(pod)));
        }
    }
    if opened.is_empty() {
        return Cow::Borrowed(observed);
    }
    let mut observed = observed.clone();
    Arc::make_mut(&mut observed.pods).extend(opened);
    Cow::Owned(observed)
}

fn replacements(observed: &Observed, memory: &Memory) -> Vec<Step> {
    let due = |pod: &&Arc<PodRecord>| {
        let of_pod = pod.instance.as_ref();
        of_pod.is_some_and(|instance| {
            memory.is_refused(instance) && !memory.is_put_off(&instance.uid)
        })
    };
    let due = observed.pods.values().filter(due);
    let steps = due.filter_map(|pod| {
        Some(Step::Replace {
            pod: pod.key.clone(),
            uid: pod.instance.as_ref()?.uid.clone(),
            version: pod.instance.as_ref()?.version.clone(),
            node: pod.place().to_owned(),
        })
    });
    steps.collect()
}

/// Gated pods that can get a node.
struct Gated<'a> {
    pods: Vec<&'a PodRecord>,
    waiting: Vec<Waiting>,
}

impl<'a> Gated<'a> {
    fn new(observed: &'a Observed, assembled: &'a Assembled, memory: &Memory, now: u64) -> Self {
        let mut gated = Self {
            pods: Vec::new(),
            waiting: Vec::new(),
        };
        let mut unselected: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
        for (instance, pod) in assembled.gated(observed) {
            let Some(one) = &pod.instance else { continue };
            let Some(left_out) = memory.excluded(pod, one, now) else {
                continue;
            };
            let view = assembled.instances.get(instance);
            let function = view.map_or(0, |view| view.function);
            let excluded = unselected.entry(function);
            let mut excluded = excluded
                .or_insert_with(|| not_selected(observed, assembled, function))
                .clone();
            for (at, node) in assembled.nodes.iter().enumerate() {
                if left_out.contains(node.name.as_str()) {
                    excluded.insert(at);
                }
            }
            gated.pods.push(pod);
            gated.waiting.push(Waiting {
                instance,
                planned: view.and_then(|view| view.node),
                excluded,
            });
        }
        gated
    }
}

/// Returns the nodes that the function's template does not allow.
fn not_selected(observed: &Observed, assembled: &Assembled, function: usize) -> BTreeSet<usize> {
    let input = assembled.inputs.get(function);
    let input = input.and_then(|at| observed.functions.get(*at));
    let prepared = input.and_then(|input| input.prepared.as_ref().ok());
    let spec = prepared.and_then(|one: &Arc<_>| one.template.pods.spec.as_ref());
    let Some(spec) = spec.filter(|spec| restricts(spec)) else {
        return BTreeSet::new();
    };
    let nodes = observed.nodes.values().enumerate();
    nodes
        .filter(|(_, node)| !selects(spec, &node.name, &node.labels))
        .map(|(at, _)| at)
        .collect()
}

fn restricts(spec: &k8s_openapi::api::core::v1::PodSpec) -> bool {
    let affinity = spec.affinity.as_ref();
    spec.node_selector.is_some()
        || affinity.is_some_and(|affinity| affinity.node_affinity.is_some())
}
