//! Memory of pods that wait, and of nodes that did not take them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::operator::observed::Observed;
use crate::operator::records::{Instance, PodRecord, Refusal};
use crate::placement::assigned_node;
use crate::resources::Scaling;
use crate::state::Key;

/// Time for which a node may not take a pod that was narrowed to it, in milliseconds.
const UNSCHEDULABLE_MS: u64 = 10_000;
/// The same while others leave the node for the pod.
const PREEMPTING_MS: u64 = 120_000;
/// The same for a node that is gone: its record may only be late.
const GONE_MS: u64 = 2_000;
/// Time for which pods of the function may take to leave the node, in milliseconds.
const LEAVING_MS: u64 = 120_000;
/// Time for which a node is left out after the first refusal, doubled with each further one.
const FIRST_EXCLUSION_MS: u64 = 60_000;
/// Maximum time for which a node is left out.
const MOST_EXCLUSION_MS: u64 = 1_800_000;
/// Time for which a write is believed that the cache does not show yet.
const BELIEVED_MS: u64 = 10_000;
/// Number of excluded nodes of a Deployment from which its pods are not narrowed any more.
const MOST_EXCLUDED: usize = 3;

/// A node that did not take pods.
#[derive(Debug, Clone, Copy, Default)]
struct Exclusion {
    times: u32,
    until: u64,
}

/// A pod that its node does not take.
#[derive(Debug, Clone, Copy)]
struct Refused {
    /// Time of the first refusal.
    first: u64,
    /// Time from which on the node might have taken it.
    since: u64,
}

/// Limit of a refusal.
#[derive(Debug, Clone, Copy)]
struct Limit {
    ms: u64,
    /// True while pods of the function leave the node.
    is_left: bool,
}

/// A gate that this replica opened.
#[derive(Debug, Clone, Default)]
pub(super) struct Opening {
    pub(super) node: Option<String>,
    /// UUID of the GPU.
    pub(super) gpu: Option<String>,
    at: u64,
}

/// Function and configuration of pods, with the namespace.
type Group = (Key, String);

/// Memory of one replica. Times are monotonic milliseconds.
#[derive(Debug, Default)]
pub struct Memory {
    /// Time at which each closed gate was seen first, by uid of the pod.
    seen: BTreeMap<String, u64>,
    /// Node, GPU and time of gates that this replica opened, by uid of the pod.
    opened: BTreeMap<String, Opening>,
    /// Refusals by the pod's node, by uid of the pod.
    refused: BTreeMap<String, Refused>,
    /// Pods whose refusal has been counted.
    counted: BTreeSet<String>,
    excluded: BTreeMap<Group, BTreeMap<String, Exclusion>>,
    /// Time before which no write is tried again, by uid of the pod.
    put_off: BTreeMap<String, u64>,
}

impl Memory {
    /// Returns true if a pod waits behind its gate, or for the node to which it is narrowed.
    pub fn has_work(pods: &BTreeMap<Key, Arc<PodRecord>>) -> bool {
        let mut pods = pods.values();
        pods.any(|pod| {
            let waits = |one: &Instance| one.gate.is_some() || one.assigned.is_some();
            pod.model_pod.is_some() || pod.instance.as_ref().is_some_and(waits)
        })
    }

    /// Takes in the pods and nodes at `now`.
    pub(super) fn observe(&mut self, observed: &Observed, now: u64) {
        let instances = || {
            observed
                .pods
                .values()
                .filter_map(|pod| pod.instance.as_ref())
        };
        let model_pods = observed
            .pods
            .values()
            .filter_map(|pod| Some(pod.model_pod.as_ref()?.gate.uid.as_str()));
        for uid in model_pods.clone() {
            self.seen.entry(uid.to_owned()).or_insert(now);
        }
        let present = instances().map(|instance| instance.uid.as_str());
        let present: BTreeSet<&str> = present.chain(model_pods).collect();
        self.seen.retain(|uid, _| present.contains(uid.as_str()));
        self.opened.retain(|uid, one| {
            present.contains(uid.as_str()) && now.saturating_sub(one.at) < BELIEVED_MS
        });
        self.refused.retain(|uid, _| present.contains(uid.as_str()));
        self.counted.retain(|uid| present.contains(uid.as_str()));
        self.put_off
            .retain(|uid, until| present.contains(uid.as_str()) && *until > now);
        let (ours, leaving) = (narrowed_by_us(observed), left(observed));
        for pod in observed.pods.values() {
            let Some(one) = &pod.instance else { continue };
            if one.gate.is_some() {
                self.seen.entry(one.uid.clone()).or_insert(now);
            }
            let is_ours = ours.contains(&(&pod.key.namespace, &one.function));
            match limit(pod, one, observed).filter(|_| is_ours) {
                Some(limit) => {
                    let is_left =
                        leaving.contains(&(pod.place(), &pod.key.namespace, &one.function));
                    self.refuse(pod, one, Limit { ms: limit, is_left }, now);
                }
                None => drop(self.refused.remove(&one.uid)),
            }
        }
        for nodes in self.excluded.values_mut() {
            // A node that takes pods again for long enough begins anew.
            nodes.retain(|_, one| one.until.saturating_add(MOST_EXCLUSION_MS) > now);
        }
        self.excluded.retain(|_, nodes| !nodes.is_empty());
    }

    fn refuse(&mut self, pod: &PodRecord, one: &Instance, limit: Limit, now: u64) {
        let new = Refused {
            first: now,
            since: now,
        };
        let refused = self.refused.entry(one.uid.clone()).or_insert(new);
        if limit.is_left && now.saturating_sub(refused.first) < LEAVING_MS {
            refused.since = now;
        }
        if now.saturating_sub(refused.since) < limit.ms || !self.counted.insert(one.uid.clone()) {
            return;
        }
        let nodes = self.excluded.entry(group(pod, one)).or_default();
        let node = nodes.entry(pod.place().to_owned()).or_default();
        // Several pods on one node that is full are one refusal.
        if node.until <= now {
            let span = FIRST_EXCLUSION_MS.saturating_mul(1_u64 << node.times.min(10));
            node.until = now.saturating_add(span.min(MOST_EXCLUSION_MS));
            node.times = node.times.saturating_add(1);
        }
    }

    /// Returns true if the pod's node has refused it for too long.
    pub(super) fn is_refused(&self, one: &Instance) -> bool {
        self.counted.contains(&one.uid) && self.refused.contains_key(&one.uid)
    }

    /// Returns the names of nodes that are left out for a pod; `None` if so many that the scheduler
    /// decides.
    pub(super) fn excluded(
        &self,
        pod: &PodRecord,
        one: &Instance,
        now: u64,
    ) -> Option<BTreeSet<&str>> {
        let nodes = self.excluded.get(&group(pod, one)).into_iter().flatten();
        let nodes = nodes.filter(|(_, exclusion)| exclusion.until > now);
        let nodes: BTreeSet<&str> = nodes.map(|(name, _)| name.as_str()).collect();
        (nodes.len() < MOST_EXCLUDED).then_some(nodes)
    }

    /// Returns the time for which the gate has been closed.
    pub(super) fn waited(&self, uid: &str, now: u64) -> u64 {
        let since = self.seen.get(uid).copied().unwrap_or(now);
        now.saturating_sub(since)
    }

    /// Returns true if no write of the pod is due.
    pub(super) fn is_put_off(&self, uid: &str) -> bool {
        self.put_off.contains_key(uid)
    }

    /// Returns the place of a pod whose gate this replica opened a moment ago.
    pub(super) fn opened(&self, one: &Instance) -> Option<&Opening> {
        self.opened.get(&one.uid)
    }

    /// Notes an open gate.
    pub fn note_opened(&mut self, uid: &str, node: Option<String>, gpu: Option<String>, now: u64) {
        let opening = Opening { node, gpu, at: now };
        self.opened.insert(uid.to_owned(), opening);
    }

    /// Notes that no write of a pod is due before `until`.
    pub fn put_off(&mut self, uid: &str, until: u64) {
        self.put_off.insert(uid.to_owned(), until);
    }
}

fn group(pod: &PodRecord, one: &Instance) -> Group {
    let function = Key::new(pod.key.namespace.clone(), one.function.clone());
    (function, one.configuration.clone())
}

/// Returns namespaces and names of the functions whose pods are narrowed by no one else: not by the
/// owner of the Deployment, and not by the template.
fn narrowed_by_us(observed: &Observed) -> BTreeSet<(&String, &String)> {
    let functions = observed.functions.iter().filter(|input| {
        input.prepared.as_ref().is_ok_and(|prepared| {
            let spec = prepared.template.pods.spec.as_ref();
            prepared.function.scaling == Scaling::Operator && spec.and_then(assigned_node).is_none()
        })
    });
    let keys = functions.map(|input| &input.record.key);
    keys.map(|key| (&key.namespace, &key.name)).collect()
}

/// Returns the nodes that pods leave, with namespace and function.
fn left(observed: &Observed) -> BTreeSet<(&str, &String, &String)> {
    let pods = observed.pods.values();
    let left = pods.filter_map(|pod| {
        let instance = pod.instance.as_ref().filter(|entry| entry.is_leaving)?;
        Some((pod.place(), &pod.key.namespace, &instance.function))
    });
    left.collect()
}

/// Returns the time for which the pod may stay as it is, if its node does not take it.
fn limit(pod: &PodRecord, one: &Instance, observed: &Observed) -> Option<u64> {
    let node = one.assigned.as_ref();
    let node = node.filter(|_| pod.node.is_empty() && one.gate.is_none() && !one.is_leaving)?;
    if !observed.nodes.contains_key(&Key::new("", node.clone())) {
        return Some(GONE_MS);
    }
    match one.refusal {
        Refusal::None => None,
        Refusal::Unschedulable => Some(UNSCHEDULABLE_MS),
        Refusal::Preempting => Some(PREEMPTING_MS),
    }
}
