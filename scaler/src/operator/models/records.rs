//! Models, their DaemonSets and pods, as far as the operator needs them.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, Pod, PodCondition};
use kube::ResourceExt as _;
use kube::core::DynamicObject;

use crate::labels;
use crate::nodes::bytes;
use crate::operator::records::typed;
use crate::resources::{FieldProblem, Model, ModelSpec, ModelStatus};
use crate::state::Key;

/// Most bytes of a message.
const MESSAGE: usize = 512;

/// A `Model`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ModelRecord {
    pub(super) key: Key,
    pub(super) uid: String,
    pub(super) generation: i64,
    pub(super) is_deleting: bool,
    /// The spec, or the wrong field.
    pub(super) spec: Result<Arc<ModelSpec>, FieldProblem>,
    pub(super) status: ModelStatus,
}

impl ModelRecord {
    /// Parses an object.
    pub(crate) fn read(mut object: DynamicObject) -> Self {
        // A status that cannot be parsed is written again.
        let fields = object.data.as_object_mut();
        let status = fields.and_then(|fields| fields.remove("status"));
        let status = status.and_then(|status| serde_json::from_value(status).ok());
        let model = typed::<Model>(&object);
        Self {
            key: Key::new(object.namespace().unwrap_or_default(), object.name_any()),
            uid: object.uid().unwrap_or_default(),
            generation: object.metadata.generation.unwrap_or_default(),
            is_deleting: object.metadata.deletion_timestamp.is_some(),
            spec: model.and_then(|model| {
                check(&model.spec)?;
                Ok(Arc::new(model.spec))
            }),
            status: status.unwrap_or_default(),
        }
    }
}

/// Checks what the schema cannot. Fails with the first wrong field.
pub(crate) fn check(spec: &ModelSpec) -> Result<(), FieldProblem> {
    if let Some(memory) = &spec.memory
        && bytes(memory).is_none_or(|bytes| bytes == 0)
    {
        let problem = format!("found {memory:?}, expected an amount of memory such as 2Gi");
        return Err(FieldProblem::new("spec.memory", problem));
    }
    let is_name = |name: &str| {
        let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
        !name.is_empty() && name.len() <= 128 && name.chars().all(is_letter)
    };
    if let Some(name) = spec.environment.keys().find(|name| !is_name(name)) {
        let problem = format!("found {name:?}, expected letters, digits and underscores");
        return Err(FieldProblem::new("spec.environment", problem));
    }
    if let Some((name, _)) = spec
        .environment
        .iter()
        .find(|(_, value)| value.len() > 4096)
    {
        let problem = format!("`{name}` has over 4096 bytes");
        return Err(FieldProblem::new("spec.environment", problem));
    }
    Ok(())
}

/// A DaemonSet with the label of a model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ServerRecord {
    pub(super) key: Key,
    pub(super) uid: String,
    pub(super) version: String,
    /// Name of the model, by its label.
    pub(super) model: String,
    /// Uid of the Model that controls it; `None` for a user's.
    pub(super) owner: Option<String>,
    /// Hash of its content, by its label.
    pub(super) content: String,
    /// Hash of all that the operator wrote, by its annotation.
    pub(super) written: String,
    /// Nodes that it is narrowed to; `None` for all with its labels.
    pub(super) nodes: Option<BTreeSet<String>>,
    /// Number of nodes that should have a pod.
    pub(super) wanted: u32,
    /// True if its controller has seen the latest spec.
    pub(super) is_observed: bool,
    pub(super) is_deleting: bool,
}

impl ServerRecord {
    /// Parses a DaemonSet; returns `None` for one without a model.
    pub(crate) fn read(server: &DaemonSet) -> Option<Self> {
        let label = |name| server.labels().get(name).cloned();
        let annotation = |name| server.annotations().get(name);
        let mut owners = server.owner_references().iter();
        let owner = owners.find(|owner| owner.kind == "Model" && owner.controller == Some(true));
        let status = server.status.as_ref();
        let wanted = status.map_or(0, |status| status.desired_number_scheduled);
        let observed = status.and_then(|status| status.observed_generation);
        let nodes = annotation(labels::MODEL_NODES);
        Some(Self {
            key: Key::new(server.namespace().unwrap_or_default(), server.name_any()),
            uid: server.uid().unwrap_or_default(),
            version: server.resource_version().unwrap_or_default(),
            model: label(labels::MODEL)?,
            owner: owner.map(|owner| owner.uid.clone()),
            content: label(labels::MODEL_CONTENT).unwrap_or_default(),
            written: annotation(labels::WRITTEN).cloned().unwrap_or_default(),
            nodes: nodes.and_then(|nodes| serde_json::from_str(nodes).ok()),
            wanted: u32::try_from(wanted).unwrap_or_default(),
            is_observed: observed >= server.metadata.generation,
            is_deleting: server.metadata.deletion_timestamp.is_some(),
        })
    }
}

/// State of a model in a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PodState {
    Failed,
    Pending,
    Pulling,
    Present,
}

/// A pod that keeps a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeeperPod {
    pub(super) key: Key,
    /// Name of the model, and hash of its content, by the labels.
    pub(super) model: String,
    pub(super) content: String,
    /// Name of its node; empty before it has one.
    pub(super) node: String,
    /// Its address, once it has one.
    pub(super) address: Option<IpAddr>,
    pub(super) state: PodState,
    pub(super) failures: u32,
    /// The reason for the state, or for the last failure.
    pub(super) message: Option<String>,
}

impl KeeperPod {
    /// Returns true if it has the model, of this source.
    pub(super) fn has(&self, model: &Key, source_hash: &str) -> bool {
        let is_of_model = self.key.namespace == model.namespace && self.model == model.name;
        is_of_model && self.content == source_hash && self.state == PodState::Present
    }

    /// Parses a pod; returns `None` for one without a model, and for one on its way out.
    pub(crate) fn read(pod: &Pod) -> Option<Self> {
        if pod.metadata.deletion_timestamp.is_some() {
            return None;
        }
        let label = |name| pod.labels().get(name).cloned();
        let status = pod.status.as_ref();
        let container = status.and_then(|status| status.container_statuses.as_ref()?.first());
        let conditions = status.and_then(|status| status.conditions.as_deref());
        let (state, message) = state_of(conditions.unwrap_or_default(), container);
        Some(Self {
            key: Key::new(pod.namespace().unwrap_or_default(), pod.name_any()),
            model: label(labels::MODEL)?,
            content: label(labels::MODEL_CONTENT).unwrap_or_default(),
            node: node_of(pod),
            address: status.and_then(|status| status.pod_ip.as_deref()?.parse().ok()),
            state,
            failures: container.map_or(0, |container| {
                u32::try_from(container.restart_count).unwrap_or_default()
            }),
            message: message.map(|message| shortened(&message)),
        })
    }
}

/// The node of a pod: the one that it runs on, or the one for which its DaemonSet made it.
fn node_of(pod: &Pod) -> String {
    let spec = pod.spec.as_ref();
    if let Some(node) = spec.and_then(|spec| spec.node_name.clone()) {
        return node;
    }
    let affinity = spec.and_then(|spec| spec.affinity.as_ref()?.node_affinity.as_ref());
    let required = affinity.and_then(|affinity| {
        affinity
            .required_during_scheduling_ignored_during_execution
            .as_ref()
    });
    let terms = required.map_or(&[][..], |required| &required.node_selector_terms);
    let mut fields = terms
        .iter()
        .flat_map(|term| term.match_fields.iter().flatten());
    let named = fields.find(|field| field.key == "metadata.name");
    named
        .and_then(|field| field.values.as_ref()?.first().cloned())
        .unwrap_or_default()
}

fn state_of(
    conditions: &[PodCondition],
    container: Option<&ContainerStatus>,
) -> (PodState, Option<String>) {
    let condition = |name: &str| conditions.iter().find(|condition| condition.type_ == name);
    if condition("Ready").is_some_and(|ready| ready.status == "True") {
        return (PodState::Present, None);
    }
    let state = container.and_then(|container| container.state.as_ref());
    let last = container.and_then(|container| container.last_state.as_ref());
    let ended = |state: Option<&ContainerState>| {
        let terminated = state?.terminated.as_ref()?;
        let code = terminated.exit_code;
        let message = terminated
            .message
            .clone()
            .filter(|text| !text.trim().is_empty());
        Some(message.unwrap_or_else(|| {
            let reason = terminated.reason.as_deref().unwrap_or("Error");
            format!("the pod ended with code {code} ({reason})")
        }))
    };
    let failure = ended(state).or_else(|| ended(last));
    if state.is_some_and(|state| state.running.is_some()) {
        return (PodState::Pulling, failure);
    }
    let waiting = state.and_then(|state| state.waiting.as_ref());
    if let Some(waiting) = waiting {
        let reason = waiting.reason.clone().unwrap_or_default();
        let is_starting = matches!(&*reason, "" | "ContainerCreating" | "PodInitializing");
        let text = waiting.message.clone().filter(|_| !is_starting);
        return match (is_starting, failure.or(text)) {
            (true, None) => (
                PodState::Pending,
                Some("the node starts the pod".to_owned()),
            ),
            (_, Some(message)) => (PodState::Failed, Some(message)),
            (false, None) => (PodState::Failed, Some(reason)),
        };
    }
    if let Some(failure) = failure {
        return (PodState::Failed, Some(failure));
    }
    let scheduled = condition("PodScheduled").filter(|scheduled| scheduled.status != "True");
    let message = scheduled.and_then(|scheduled| scheduled.message.clone());
    (
        PodState::Pending,
        Some(message.unwrap_or_else(|| "the node has not started the pod".to_owned())),
    )
}

/// The last line of a message with any text: a container's is the end of its log.
fn shortened(message: &str) -> String {
    let mut lines = message.lines().rev().map(str::trim);
    let line = lines.find(|line| !line.is_empty()).unwrap_or_default();
    let end = line.floor_char_boundary(MESSAGE);
    let line = line.get(..end).unwrap_or_default();
    // As the command begins it.
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}
