//! Messages between kube-scheduler and an extender: `k8s.io/kube-scheduler/extender/v1`.
//!
//! The Go types have no JSON tags, so fields have their Go names ("NodeNames"). Go ignores the case
//! of names, and the API also promises lower case. Pods and nodes inside have the usual names of
//! Kubernetes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Maximum score of a node.
pub const MAX_SCORE: i64 = 10;

/// A pod and its candidate nodes: full nodes, or only their names if the extender is
/// `nodeCacheCapable`.
#[derive(Debug, Deserialize)]
pub struct ExtenderArgs {
    /// The pod.
    #[serde(rename = "Pod", alias = "pod")]
    pub pod: Pod,
    /// Full nodes.
    #[serde(rename = "Nodes", alias = "nodes", default)]
    pub nodes: Option<NodeList>,
    /// Names of the nodes.
    #[serde(rename = "NodeNames", alias = "nodenames", default)]
    pub node_names: Option<Vec<String>>,
}

/// The part of a pod that the extender reads.
#[derive(Debug, Default, Deserialize)]
pub struct Pod {
    /// Name, namespace, labels and annotations.
    #[serde(default)]
    pub metadata: Metadata,
}

/// The part of an object's metadata that the extender reads. Go omits empty maps or writes null.
#[derive(Debug, Default, Deserialize)]
pub struct Metadata {
    /// Name of the object; empty for a pod with a generated name.
    #[serde(default)]
    pub name: String,
    /// Namespace of the object.
    #[serde(default)]
    pub namespace: String,
    /// Labels of the object.
    #[serde(default)]
    pub labels: Option<BTreeMap<String, String>>,
    /// Annotations of the object.
    #[serde(default)]
    pub annotations: Option<BTreeMap<String, String>>,
}

/// Full nodes, as sent: the filter returns them unchanged.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct NodeList {
    /// Metadata of the list.
    #[serde(default)]
    pub metadata: Option<Box<RawValue>>,
    /// The nodes.
    #[serde(default)]
    pub items: Option<Vec<Box<RawValue>>>,
}

/// The name of a node.
#[derive(Debug, Deserialize)]
pub struct NamedNode {
    /// Metadata of the node.
    pub metadata: NodeName,
}

/// Metadata of a node, reduced to the name.
#[derive(Debug, Deserialize)]
pub struct NodeName {
    /// Name of the node.
    pub name: String,
}

/// Nodes that pass, in the form of the request, and the reasons why others fail.
#[derive(Debug, Default, Serialize)]
pub struct ExtenderFilterResult {
    /// Full nodes that pass.
    #[serde(rename = "Nodes")]
    pub nodes: Option<NodeList>,
    /// Names of nodes that pass.
    #[serde(rename = "NodeNames")]
    pub node_names: Option<Vec<String>>,
    /// Reasons by node, for nodes where preemption may help.
    #[serde(rename = "FailedNodes")]
    pub failed_nodes: BTreeMap<String, String>,
    /// Reasons by node, for nodes where preemption does not help.
    #[serde(rename = "FailedAndUnresolvableNodes")]
    pub failed_and_unresolvable_nodes: BTreeMap<String, String>,
    /// The error; empty on success.
    #[serde(rename = "Error")]
    pub error: String,
}

/// Score of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostPriority {
    /// Name of the node.
    #[serde(rename = "Host")]
    pub host: String,
    /// Score from 0 to [`MAX_SCORE`].
    #[serde(rename = "Score")]
    pub score: i64,
}
