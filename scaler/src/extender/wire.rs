//! What kube-scheduler sends to an extender and reads from it: `k8s.io/kube-scheduler/extender/v1`.
//!
//! The types have no JSON tags in Go, so fields are written as they are called there ("NodeNames"); Go reads them in any
//! case, and lower case is promised to work too. What lies in them (pods, nodes) is written as everywhere in Kubernetes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The highest score of a node.
pub const MAX_SCORE: i64 = 10;

/// A pod, and the nodes that are left for it: in `nodes`, or, for extenders that say `nodeCacheCapable`, their names.
#[derive(Debug, Deserialize)]
pub struct ExtenderArgs {
    /// The pod.
    #[serde(rename = "Pod", alias = "pod")]
    pub pod: Pod,
    /// The nodes in full.
    #[serde(rename = "Nodes", alias = "nodes", default)]
    pub nodes: Option<NodeList>,
    /// The nodes' names.
    #[serde(rename = "NodeNames", alias = "nodenames", default)]
    pub node_names: Option<Vec<String>>,
}

/// As much of a pod as decides.
#[derive(Debug, Default, Deserialize)]
pub struct Pod {
    /// Name, namespace, labels and annotations.
    #[serde(default)]
    pub metadata: Metadata,
}

/// As much of an object's metadata as decides. Go writes empty maps as nothing or as null.
#[derive(Debug, Default, Deserialize)]
pub struct Metadata {
    /// The object's name; empty for a pod that is going to be given one.
    #[serde(default)]
    pub name: String,
    /// Its namespace.
    #[serde(default)]
    pub namespace: String,
    /// Its labels.
    #[serde(default)]
    pub labels: Option<BTreeMap<String, String>>,
    /// Its annotations.
    #[serde(default)]
    pub annotations: Option<BTreeMap<String, String>>,
}

/// Nodes in full, as they were sent: what passes the filter goes back unchanged, whatever it has.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct NodeList {
    /// Of the list.
    #[serde(default)]
    pub metadata: Option<Box<RawValue>>,
    /// The nodes.
    #[serde(default)]
    pub items: Option<Vec<Box<RawValue>>>,
}

/// A node, for its name.
#[derive(Debug, Deserialize)]
pub struct NamedNode {
    /// Its metadata.
    pub metadata: NodeName,
}

/// A node's name.
#[derive(Debug, Deserialize)]
pub struct NodeName {
    /// The name.
    pub name: String,
}

/// Which nodes pass, in the form in which they came, and why others do not.
#[derive(Debug, Default, Serialize)]
pub struct ExtenderFilterResult {
    /// Nodes that pass, in full.
    #[serde(rename = "Nodes")]
    pub nodes: Option<NodeList>,
    /// Names of nodes that pass.
    #[serde(rename = "NodeNames")]
    pub node_names: Option<Vec<String>>,
    /// Why a node does not pass.
    #[serde(rename = "FailedNodes")]
    pub failed_nodes: BTreeMap<String, String>,
    /// Why a node does not pass whatever pods went from it.
    #[serde(rename = "FailedAndUnresolvableNodes")]
    pub failed_and_unresolvable_nodes: BTreeMap<String, String>,
    /// Why there is no answer; empty if there is one.
    #[serde(rename = "Error")]
    pub error: String,
}

/// The score of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostPriority {
    /// The node.
    #[serde(rename = "Host")]
    pub host: String,
    /// From 0 to [`MAX_SCORE`].
    #[serde(rename = "Score")]
    pub score: i64,
}
