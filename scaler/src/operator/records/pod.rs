//! Records of all pods, as they take resources, with more fields for instances and daemons.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Affinity, ContainerStatus, Pod, PodCondition, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use tetris_scaler_core::Resources;

use crate::labels;
use crate::nodes::requests;
use crate::placement::{Gate, assigned_node};
use crate::state::Key;

/// A pod that has not ended.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PodRecord {
    /// Namespace and name of the pod.
    pub key: Key,
    /// Name of its node; empty before it is scheduled.
    pub node: String,
    /// Its resource requests.
    pub requests: Resources,
    /// Fields of an instance, if it is one.
    pub instance: Option<Instance>,
    /// Fields of a pod of another owner that waits for its model's node, if it is one.
    pub model_pod: Option<Box<ModelPod>>,
    /// Address of a daemon, if it is one.
    pub daemon: Option<IpAddr>,
    /// Fields of a gateway, if it is one with an address.
    pub gateway: Option<GatewayPod>,
}

/// A pod that is a gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GatewayPod {
    /// Address of the pod.
    pub address: IpAddr,
    /// True if it is ready and not being deleted.
    pub is_ready: bool,
}

/// A pod that is an instance.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Instance {
    /// Name of its function.
    pub function: String,
    /// Name of its configuration.
    pub configuration: String,
    /// True if it is ready.
    pub is_ready: bool,
    /// True if it is being deleted.
    pub is_leaving: bool,
    /// True if it is marked as being replaced.
    pub is_retiring: bool,
    /// Deletion cost.
    pub cost: i32,
    /// Time of its creation, in seconds since the epoch.
    pub created_s: i64,
    /// Unique id, different for a recreated pod.
    pub uid: String,
    /// Hash of its template.
    pub template: String,
    /// Its closed gate.
    pub gate: Option<Gate>,
    /// Node to which its affinity narrows it, before it is scheduled.
    pub assigned: Option<String>,
    /// UUID of its GPU, if one was chosen.
    pub gpu: Option<String>,
    /// Version of the pod, while it is narrowed to a node and not scheduled.
    pub version: Option<String>,
    /// The scheduler's last answer for it.
    pub refusal: Refusal,
    /// The kubelet's reason for a container that will not start soon, also while one that crashes runs.
    pub waiting: Option<&'static str>,
    /// Time since which it is on its node and not ready, in seconds since the epoch.
    pub unready_since_s: Option<i64>,
}

/// Maximum number of labels of a node selector that is kept; the scheduler knows the others.
const MAX_LABELS: usize = 64;
/// Maximum length of the name of a ModelProfile, as of every object.
const MAX_NAME: usize = 253;

/// A pod of another owner that names its model, and waits behind the gate.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelPod {
    /// Name of a ModelProfile that a function of the namespace uses.
    pub profile: String,
    /// Its closed gate.
    pub gate: Gate,
    /// Node selector and node affinity; all other fields are empty.
    pub spec: PodSpec,
}

impl ModelPod {
    fn read(pod: &Pod) -> Option<Box<Self>> {
        let profile = pod.annotations().get(labels::PROFILE)?.clone();
        let profile = Some(profile).filter(|name| name.len() <= MAX_NAME)?;
        let gate = Gate::read(pod)?;
        let spec = pod.spec.as_ref()?;
        let selector = spec.node_selector.clone();
        let selector = selector.filter(|labels| labels.len() <= MAX_LABELS);
        let affinity = spec.affinity.as_ref().filter(|_| !gate.is_too_long());
        let node_affinity = affinity.and_then(|affinity| affinity.node_affinity.clone());
        Some(Box::new(Self {
            profile,
            gate,
            spec: PodSpec {
                node_selector: selector,
                affinity: Some(Affinity {
                    node_affinity,
                    ..Affinity::default()
                }),
                ..PodSpec::default()
            },
        }))
    }
}

/// Reason of the kubelet for a container that ends soon, again and again.
const CRASHES: &str = "CrashLoopBackOff";

/// Reasons of the kubelet for a container that does not start until something else changes.
const HOPELESS: [&str; 8] = [
    CRASHES,
    "ImagePullBackOff",
    "ErrImagePull",
    "ErrImageNeverPull",
    "InvalidImageName",
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
];

/// The scheduler's last answer for a pod.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Refusal {
    /// No refusal so far.
    #[default]
    None,
    /// No node takes the pod.
    Unschedulable,
    /// No node takes the pod before others have left theirs for it.
    Preempting,
}

impl PodRecord {
    /// Returns the node on which it is or will be; empty if neither is known.
    pub fn place(&self) -> &str {
        let assigned = self
            .instance
            .as_ref()
            .and_then(|instance| instance.assigned.as_deref());
        if self.node.is_empty() {
            assigned.unwrap_or_default()
        } else {
            &self.node
        }
    }

    /// Parses a pod; returns `None` for one that has ended and takes no resources.
    pub fn read(pod: &Pod) -> Option<Self> {
        let status = pod.status.as_ref();
        let phase = status.and_then(|status| status.phase.as_deref());
        if matches!(phase, Some("Succeeded" | "Failed")) {
            return None;
        }
        let spec = pod.spec.as_ref();
        let has = |(label, value): (&str, &str)| {
            let found = pod.labels().get(label);
            found.is_some_and(|found| found == value)
        };
        let address: Option<IpAddr> =
            status.and_then(|status| status.pod_ip.as_deref()?.parse().ok());
        let instance = instance(pod);
        Some(Self {
            key: Key::new(pod.namespace().unwrap_or_default(), pod.name_any()),
            node: spec
                .and_then(|spec| spec.node_name.clone())
                .unwrap_or_default(),
            // The API server accepts only valid quantities.
            requests: spec
                .and_then(|spec| requests(spec).ok())
                .unwrap_or_default(),
            model_pod: match &instance {
                Some(_) => None,
                None => ModelPod::read(pod),
            },
            instance,
            daemon: address.filter(|_| has(labels::DAEMON)),
            gateway: address
                .filter(|_| has(labels::GATEWAY))
                .map(|address| GatewayPod {
                    address,
                    is_ready: is_ready(conditions(pod))
                        && pod.metadata.deletion_timestamp.is_none(),
                }),
        })
    }
}

fn conditions(pod: &Pod) -> &[PodCondition] {
    let status = pod.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_ref());
    conditions.map_or(&[][..], Vec::as_slice)
}

fn is_ready(conditions: &[PodCondition]) -> bool {
    let mut all = conditions.iter();
    all.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn instance(pod: &Pod) -> Option<Instance> {
    let label = |name| pod.labels().get(name).cloned();
    let annotation = |name| pod.annotations().get(name);
    let conditions = conditions(pod);
    let spec = pod.spec.as_ref().filter(|spec| spec.node_name.is_none());
    let assigned = spec.and_then(assigned_node).map(str::to_owned);
    let created = pod.creation_timestamp();
    Some(Instance {
        function: label(labels::FUNCTION)?,
        configuration: label(labels::CONFIGURATION)?,
        is_ready: is_ready(conditions),
        is_leaving: pod.metadata.deletion_timestamp.is_some(),
        is_retiring: annotation(labels::RETIRING).is_some_and(|value| value == "true"),
        cost: annotation(labels::DELETION_COST)
            .and_then(|cost| cost.parse().ok())
            .unwrap_or(0),
        created_s: created.map_or(0, |time| time.0.as_second()),
        uid: pod.uid().unwrap_or_default(),
        template: label(labels::POD_TEMPLATE).unwrap_or_default(),
        gate: Gate::read(pod),
        version: assigned.as_ref().and(pod.resource_version()),
        assigned,
        gpu: annotation(labels::GPU)
            .filter(|gpu| *gpu != labels::EVERY_GPU)
            .cloned(),
        refusal: refusal(pod, conditions),
        waiting: waiting(pod, conditions),
        unready_since_s: unready_since_s(conditions),
    })
}

fn waiting(pod: &Pod, conditions: &[PodCondition]) -> Option<&'static str> {
    let status = pod.status.as_ref()?;
    let lists = [&status.init_container_statuses, &status.container_statuses];
    let containers = lists.into_iter().flatten().flatten();
    let unready_s = since(conditions, "Ready", "False");
    let reasons =
        containers.filter_map(
            |container| match container.state.as_ref()?.waiting.as_ref() {
                Some(waiting) => {
                    let reason = waiting.reason.as_deref()?;
                    HOPELESS.into_iter().find(|known| *known == reason)
                }
                None => runs_between_crashes(container, unready_s?).then_some(CRASHES),
            },
        );
    reasons.max()
}

/// Time after which the kubelet takes a container for sound and restarts it at once, in seconds.
const SOUND_AFTER_S: i64 = 600;

/// Returns true if a container that ended soon was restarted more than once, and its pod was not ready
/// since, as of `unready_s`. Such a container shows as waiting most of the time, and runs now and then.
fn runs_between_crashes(one: &ContainerStatus, unready_s: i64) -> bool {
    let second = |time: &Option<Time>| Some(time.as_ref()?.0.as_second());
    let running = one.state.as_ref().and_then(|state| state.running.as_ref());
    let ended = one.last_state.as_ref();
    let ended = ended.and_then(|state| state.terminated.as_ref());
    let (Some(running), Some(ended)) = (running, ended) else {
        return false;
    };
    let was_short = match (second(&ended.started_at), second(&ended.finished_at)) {
        (Some(started), Some(finished)) => finished.saturating_sub(started) < SOUND_AFTER_S,
        _ => false,
    };
    let was_ready = second(&running.started_at).is_none_or(|started| started < unready_s);
    one.restart_count > 1 && was_short && !was_ready
}

/// Returns the time at which the condition `what` got this status, in seconds since the epoch.
fn since(conditions: &[PodCondition], what: &str, status: &str) -> Option<i64> {
    let mut all = conditions.iter();
    let condition = all.find(|condition| condition.type_ == what && condition.status == status)?;
    Some(condition.last_transition_time.as_ref()?.0.as_second())
}

/// Returns the later of the times at which the pod got its node and lost its readiness.
fn unready_since_s(conditions: &[PodCondition]) -> Option<i64> {
    let scheduled = since(conditions, "PodScheduled", "True")?;
    let unready = since(conditions, "Ready", "False");
    Some(unready.map_or(scheduled, |unready| unready.max(scheduled)))
}

fn refusal(pod: &Pod, conditions: &[PodCondition]) -> Refusal {
    let is_refusal = |one: &PodCondition| {
        one.type_ == "PodScheduled"
            && one.status == "False"
            && one.reason.as_deref() == Some("Unschedulable")
    };
    if !conditions.iter().any(is_refusal) {
        return Refusal::None;
    }
    let nominated = pod.status.as_ref();
    let nominated = nominated.and_then(|status| status.nominated_node_name.as_deref());
    match nominated {
        Some(node) if !node.is_empty() => Refusal::Preempting,
        _ => Refusal::Unschedulable,
    }
}
