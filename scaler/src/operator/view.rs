//! Observations as input of the core.

use std::collections::BTreeMap;
use std::sync::Arc;

use tetris_scaler_core::{FunctionView, InstanceView, NodeView, Phase, Rate};

use super::latency::{self, Service};
use super::node_views::{held_on_gpus, node_views};
use super::observed::{FunctionInput, Observed};
use super::prepare::Prepared;
use super::records::{DeploymentRecord, Instance, PodRecord};
use crate::nodes::NodeGpu;
use crate::resources::Scaling;
use crate::state::Key;

/// Input of a decision, with the sources of its indices.
#[derive(Debug, Default)]
pub struct Assembled {
    /// Functions that can be decided on.
    pub functions: Vec<FunctionView>,
    /// Indices of the functions among the observed ones.
    pub inputs: Vec<usize>,
    /// Instances of the functions.
    pub instances: Vec<InstanceView>,
    /// Sources of the instances.
    pub sources: Vec<Source>,
    /// The nodes.
    pub nodes: Vec<NodeView>,
    /// Hostnames of the nodes, which preferences refer to.
    pub hostnames: Vec<String>,
    /// Latencies in service by function, where they are known.
    pub services: Vec<Option<Service>>,
}

/// Source of an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Name of the configuration.
    pub configuration: String,
    /// Its pod, if it has one.
    pub pod: Option<Key>,
    /// True if the pod is marked as being replaced.
    pub is_retiring: bool,
    /// Deletion cost.
    pub cost: i32,
    /// True if it waits for a node: behind a gate, or not created yet.
    pub takes_slot: bool,
    /// True if its pod is being deleted.
    pub is_leaving: bool,
    /// Hash of its pod's template, and the time of its creation; `None` without a pod.
    pub template: Option<(i64, String)>,
}

/// Pods of functions, by namespace and function, then by configuration.
type Groups<'a> =
    BTreeMap<(&'a str, &'a str), BTreeMap<&'a str, Vec<(&'a PodRecord, &'a Instance)>>>;

impl Assembled {
    /// Assembles the input from observations.
    pub fn new(observed: &Observed) -> Self {
        let mut assembled = Self::default();
        let names = observed.nodes.values().map(|node| node.name.as_str());
        let nodes: BTreeMap<&str, usize> = names
            .enumerate()
            .map(|(index, name)| (name, index))
            .collect();
        let groups = groups(observed);
        for (index, input) in observed.functions.iter().enumerate() {
            let Ok(prepared) = &input.prepared else {
                continue;
            };
            if input.record.is_deleting {
                continue;
            }
            let function = assembled.functions.len();
            assembled.functions.push(function_view(input, prepared));
            assembled.inputs.push(index);
            let of = Of {
                function,
                input,
                prepared,
                nodes: &nodes,
                gpus: &observed.gpus,
            };
            let first = assembled.instances.len();
            assembled.add_instances(&of, observed, &groups);
            assembled.compare(&of, first);
        }
        let pods = assembled.instances.iter().zip(&assembled.sources);
        let pods = pods.filter(|(instance, _)| instance.configuration.is_some());
        let counted = pods.filter_map(|(_, source)| source.pod.as_ref()).collect();
        let stores = assembled.functions.iter();
        let stores = stores.map(|entry| entry.model.store.as_str()).collect();
        let gpus_held = held_on_gpus(&assembled.functions, &assembled.instances);
        assembled.nodes = node_views(observed, &counted, &stores, &gpus_held);
        let hostnames = observed.nodes.values().map(|node| node.hostname.clone());
        assembled.hostnames = hostnames.collect();
        assembled
    }

    /// Compares the latency of the function's instances, from the index `first` on, with its profile.
    /// If they carry less, the load counts for more, in the profile's terms.
    fn compare(&mut self, of: &Of<'_>, first: usize) {
        let (load, latency) = (of.input.load.as_ref(), of.input.latency.as_ref());
        let instances = self.instances.get_mut(first..).unwrap_or_default();
        let service = match (load, latency) {
            (Ok(load), Some(Ok(latency))) => {
                let profile = &of.prepared.model.profile;
                latency::compare(*latency, *load, profile, instances.iter())
            }
            _ => None,
        };
        let more = service.map_or(0, |service| service.more_percent);
        if let Some(function) = self.functions.last_mut().filter(|_| more > 0) {
            let mut loads: Vec<&mut Option<Rate>> = vec![&mut function.load, &mut function.peak];
            loads.extend(instances.iter_mut().map(|instance| &mut instance.load));
            for load in loads {
                *load = load.map(|load| load.with_headroom(more));
            }
        }
        self.services.push(service);
    }

    fn add_instances(&mut self, of: &Of<'_>, observed: &Observed, groups: &Groups<'_>) {
        let key = &of.input.record.key;
        let group = groups.get(&(key.namespace.as_str(), key.name.as_str()));
        let mut group = group.cloned().unwrap_or_default();
        for deployment in of_function(of, observed) {
            let pods = group.remove(deployment.configuration.as_str());
            let mut pods = pods.unwrap_or_default();
            pods.sort_by(first_to_go);
            let staying = pods.iter().filter(|(_, pod)| !pod.is_leaving).count();
            let surplus = staying.saturating_sub(deployment.replicas as usize);
            let mut leaving = 0;
            let first = self.instances.len();
            for (pod, instance) in pods {
                let is_surplus = !instance.is_leaving && leaving < surplus;
                leaving += usize::from(is_surplus);
                self.add_pod(of, pod, instance, is_surplus);
            }
            for number in staying..deployment.replicas as usize {
                self.add_missing(of, deployment, number);
            }
            self.fill_slots(of.nodes, &deployment.planned, first);
        }
        // Their Deployment is deleted, unseen so far, or not the operator's.
        for (pod, instance) in group.into_values().flatten() {
            self.add_pod(
                of,
                pod,
                instance,
                of.prepared.function.scaling == Scaling::Operator,
            );
        }
    }

    fn add_pod(&mut self, of: &Of<'_>, pod: &PodRecord, instance: &Instance, surplus: bool) {
        let phase = match instance {
            one if one.is_leaving || surplus => Phase::Leaving,
            one if one.is_ready => Phase::Ready,
            _ if of.input.failing.replaced.contains_key(&pod.key.name) => Phase::Failing,
            _ => Phase::Starting,
        };
        let is_retiring = instance.is_retiring;
        self.instances.push(InstanceView {
            name: pod.key.name.clone(),
            function: of.function,
            configuration: of.configuration(&instance.configuration),
            node: of.nodes.get(pod.place()).copied(),
            gpu: instance
                .gpu
                .as_deref()
                .and_then(|gpu| of.gpu(pod.place(), gpu)),
            phase,
            load: of.input.pod_loads.get(&pod.key.name).copied(),
            retiring: is_retiring && !of.input.give_up_retiring,
        });
        self.sources.push(Source {
            configuration: instance.configuration.clone(),
            pod: Some(pod.key.clone()),
            is_retiring,
            cost: instance.cost,
            takes_slot: instance.gate.is_some() && !instance.is_leaving,
            is_leaving: instance.is_leaving,
            template: Some((instance.created_s, instance.template.clone())),
        });
    }

    /// Adds a pod that the Deployment's controller has not created yet.
    fn add_missing(&mut self, of: &Of<'_>, deployment: &DeploymentRecord, number: usize) {
        self.instances.push(InstanceView {
            name: format!("{}/{number}", deployment.key.name),
            function: of.function,
            configuration: of.configuration(&deployment.configuration),
            node: None,
            gpu: None,
            phase: Phase::Starting,
            load: Some(Rate::ZERO),
            retiring: false,
        });
        self.sources.push(Source {
            configuration: deployment.configuration.clone(),
            pod: None,
            is_retiring: false,
            cost: 0,
            takes_slot: true,
            is_leaving: false,
            template: None,
        });
    }
}

/// The function that instances are added for.
struct Of<'a> {
    function: usize,
    input: &'a FunctionInput,
    prepared: &'a Prepared,
    nodes: &'a BTreeMap<&'a str, usize>,
    gpus: &'a BTreeMap<String, Arc<[NodeGpu]>>,
}

impl Of<'_> {
    /// Returns the index of a GPU on its node.
    fn gpu(&self, node: &str, uuid: &str) -> Option<usize> {
        let mut gpus = self.gpus.get(node)?.iter();
        gpus.position(|gpu| gpu.uuid == uuid)
    }

    fn configuration(&self, name: &str) -> Option<usize> {
        self.prepared.names.iter().position(|entry| entry == name)
    }
}

fn function_view(input: &FunctionInput, prepared: &Prepared) -> FunctionView {
    let function = &prepared.function;
    let is_ours = function.scaling == Scaling::Operator;
    FunctionView {
        model: prepared.model.clone(),
        load: input.load.as_ref().ok().copied(),
        peak: input.peak,
        min_instances: function.min_instances.max(input.is_demanded.into()),
        max_instances: function.max_instances,
        scale_in: function.scale_in,
        // The operator marks replaced instances only on its own pods.
        consolidate: input.consolidate && is_ours,
    }
}

fn groups(observed: &Observed) -> Groups<'_> {
    let mut groups = Groups::new();
    for pod in observed.pods.values() {
        if let Some(instance) = &pod.instance {
            let function = (pod.key.namespace.as_str(), instance.function.as_str());
            let configurations = groups.entry(function).or_default();
            let pods = configurations.entry(instance.configuration.as_str());
            pods.or_default().push((pod.as_ref(), instance));
        }
    }
    groups
}

/// Returns the Deployments of a function: those with its labels if another autoscaler scales it,
/// else those that the operator made.
fn of_function<'a>(
    of: &Of<'a>,
    observed: &'a Observed,
) -> impl Iterator<Item = &'a DeploymentRecord> {
    let record = &of.input.record;
    let external = of.prepared.function.scaling == Scaling::External;
    let all = observed.deployments.values().map(AsRef::as_ref);
    all.filter(move |entry| {
        if !external {
            return entry.is_of(record);
        }
        entry.key.namespace == record.key.namespace
            && entry.function == record.key.name
            && !entry.is_deleting
    })
}

/// Orders pods as a ReplicaSet deletes them: without a node, not ready, of lower cost, younger;
/// then by name.
fn first_to_go(a: &(&PodRecord, &Instance), b: &(&PodRecord, &Instance)) -> std::cmp::Ordering {
    let rank = |(pod, one): &(&PodRecord, &Instance)| {
        let placed = !pod.node.is_empty();
        let age = std::cmp::Reverse(one.created_s);
        (placed, one.is_ready, one.cost, age, pod.key.name.clone())
    };
    rank(a).cmp(&rank(b))
}
