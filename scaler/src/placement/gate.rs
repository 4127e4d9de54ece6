//! The scheduling gate of a pod, and the node to which its affinity narrows it.

use k8s_openapi::api::core::v1::{
    NodeAffinity, NodeSelectorRequirement, NodeSelectorTerm, Pod, PodSpec, PreferredSchedulingTerm,
};
use kube::ResourceExt as _;
use serde_json::{Map, Value, json};

use crate::labels;

/// Field of nodes that the affinity of an assigned pod selects by.
const NAME: &str = "metadata.name";

/// Maximum length of a pod's node affinity in JSON, in bytes. A longer one is not kept, and its pod is neither narrowed nor given
/// preferences.
const MAX_AFFINITY: usize = 16 << 10;

/// Maximum number of gates of other controllers. A pod with more is left to them.
const MAX_OTHERS: usize = 64;

/// The closed gate of a pod, with the fields that opening it changes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Gate {
    /// Uid of the pod.
    pub uid: String,
    /// Resource version of the pod.
    pub version: String,
    /// Gates of other controllers.
    others: Vec<String>,
    /// Terms of the required node affinity, of which one must match.
    terms: Vec<NodeSelectorTerm>,
    /// Preferred node affinity.
    preferred: Vec<PreferredSchedulingTerm>,
    /// True if the node affinity is too long to be kept.
    is_too_long: bool,
}

impl Gate {
    /// Reads the gate of a pod; returns `None` for a pod without it, or one that is being deleted.
    pub fn read(pod: &Pod) -> Option<Self> {
        let spec = pod.spec.as_ref()?;
        let gates = spec.scheduling_gates.iter().flatten();
        let (ours, others): (Vec<_>, Vec<_>) = gates
            .map(|gate| gate.name.clone())
            .partition(|name| name == labels::GATE);
        let is_leaving = pod.metadata.deletion_timestamp.is_some();
        if ours.is_empty() || others.len() > MAX_OTHERS || is_leaving {
            return None;
        }
        let mut gate = Self {
            uid: pod.uid()?,
            version: pod.resource_version()?,
            others,
            ..Self::default()
        };
        if let Some(nodes) = node_affinity(spec) {
            let preferred = &nodes.preferred_during_scheduling_ignored_during_execution;
            let len = serde_json::to_vec(nodes).map_or(usize::MAX, |json| json.len());
            gate.is_too_long = len > MAX_AFFINITY;
            if !gate.is_too_long {
                gate.terms = terms(spec).to_vec();
                gate.preferred = preferred.clone().unwrap_or_default();
            }
        }
        Some(gate)
    }

    /// Returns the merge patch that opens the gate of this version of the pod, and narrows it to
    /// `node` and `gpu`, if there are any. The API server takes only additions to the terms of a gated pod.
    pub fn opening(&self, node: Option<&str>, gpu: Option<&str>) -> Value {
        let required = node.filter(|_| !self.is_too_long).map(|node| {
            let terms = json!({"nodeSelectorTerms": self.narrowed(node)});
            json!({"requiredDuringSchedulingIgnoredDuringExecution": terms})
        });
        let mut patch = self.patch(required);
        let metadata = patch.get_mut("metadata").and_then(Value::as_object_mut);
        if let (Some(gpu), Some(metadata)) = (gpu, metadata) {
            metadata.insert("annotations".to_owned(), json!({labels::GPU: gpu}));
        }
        patch
    }

    /// Returns the merge patch that opens the gate of this version of the pod, and has it prefer
    /// `nodes`, each with a weight from 1 to 100.
    pub fn preferring(&self, nodes: &[(String, i32)]) -> Value {
        let terms = nodes.iter().map(|(node, weight)| PreferredSchedulingTerm {
            weight: *weight,
            preference: NodeSelectorTerm {
                match_fields: Some(vec![is_named(node)]),
                match_expressions: None,
            },
        });
        let terms: Vec<_> = self.preferred.iter().cloned().chain(terms).collect();
        let terms = json!({"preferredDuringSchedulingIgnoredDuringExecution": terms});
        self.patch((!nodes.is_empty() && !self.is_too_long).then_some(terms))
    }

    /// Returns true if the pod's node affinity was too long to be kept.
    pub fn is_too_long(&self) -> bool {
        self.is_too_long
    }

    fn patch(&self, node_affinity: Option<Value>) -> Value {
        let others = self.others.iter().map(|name| json!({"name": name}));
        let others: Vec<Value> = others.collect();
        let gates = if others.is_empty() {
            Value::Null
        } else {
            others.into()
        };
        let mut spec = Map::from_iter([("schedulingGates".to_owned(), gates)]);
        if let Some(node_affinity) = node_affinity {
            let affinity = json!({"nodeAffinity": node_affinity});
            spec.insert("affinity".to_owned(), affinity);
        }
        json!({"metadata": {"uid": self.uid, "resourceVersion": self.version}, "spec": spec})
    }

    fn narrowed(&self, node: &str) -> Vec<NodeSelectorTerm> {
        let mut terms = self.terms.clone();
        if terms.is_empty() {
            terms.push(NodeSelectorTerm::default());
        }
        for term in &mut terms {
            term.match_fields
                .get_or_insert_default()
                .push(is_named(node));
        }
        terms
    }
}

fn is_named(node: &str) -> NodeSelectorRequirement {
    NodeSelectorRequirement {
        key: NAME.to_owned(),
        operator: "In".to_owned(),
        values: Some(vec![node.to_owned()]),
    }
}

/// Returns the only node that the required affinity of a pod allows by name.
pub fn assigned_node(spec: &PodSpec) -> Option<&str> {
    let mut nodes = terms(spec).iter().map(|term| {
        let mut fields = term.match_fields.iter().flatten().rev();
        let field = fields.find(|field| field.key == NAME && field.operator == "In")?;
        match field.values.as_deref()? {
            [node] => Some(node.as_str()),
            _ => None,
        }
    });
    let first = nodes.next()??;
    nodes.all(|node| node == Some(first)).then_some(first)
}

fn terms(spec: &PodSpec) -> &[NodeSelectorTerm] {
    let required = node_affinity(spec).and_then(|nodes| {
        nodes
            .required_during_scheduling_ignored_during_execution
            .as_ref()
    });
    required.map_or(&[], |required| &required.node_selector_terms)
}

fn node_affinity(spec: &PodSpec) -> Option<&NodeAffinity> {
    spec.affinity.as_ref()?.node_affinity.as_ref()
}
