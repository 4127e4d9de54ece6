//! Records of nodes.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Taint};
use kube::ResourceExt as _;
use tetris_scaler_core::Resources;

use crate::labels;
use crate::nodes::{bytes, millis};

/// A node of the cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeRecord {
    /// Name of the node.
    pub name: String,
    /// Hostname label, which preferences refer to.
    pub hostname: String,
    /// All labels, which selectors of templates refer to.
    pub labels: BTreeMap<String, String>,
    /// Resources that pods can request.
    pub allocatable: Resources,
    /// True if the node is ready, not cordoned, and has no taint that keeps pods away. The operator
    /// does not evaluate tolerations: it never prefers such a node, but the scheduler may use it.
    pub accepts_new: bool,
    /// True if it has the taint that keeps pods without a GPU away. Pods of functions with GPUs tolerate
    /// it.
    pub gpus_only: bool,
    /// True if the node reports that it is not ready, or nothing for a while.
    pub is_lost: bool,
}

impl NodeRecord {
    /// Parses a node.
    pub fn read(node: &Node) -> Self {
        let name = node.name_any();
        let spec = node.spec.clone().unwrap_or_default();
        let status = node.status.clone().unwrap_or_default();
        let allocatable = status.allocatable.unwrap_or_default();
        let quantity = |name, read: fn(&str) -> Option<u64>| {
            let allocated = allocatable.get(name);
            allocated
                .and_then(|quantity| read(&quantity.0))
                .unwrap_or(0)
        };
        let mut conditions = status.conditions.iter().flatten();
        let ready = conditions.find(|condition| condition.type_ == "Ready");
        let is_lost = ready.is_some_and(|condition| condition.status != "True");
        let ready = ready.is_some_and(|condition| condition.status == "True");
        let taints = spec.taints.iter().flatten();
        let keeps_away =
            |taint: &&Taint| matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute");
        let (of_gpus, others): (Vec<_>, Vec<_>) = taints
            .filter(keeps_away)
            .partition(|taint| taint.key == labels::GPU_TAINT);
        let hostname = node.labels().get(labels::HOSTNAME);
        Self {
            hostname: hostname.unwrap_or(&name).clone(),
            labels: node.labels().clone(),
            allocatable: Resources {
                cpu_millis: quantity("cpu", millis),
                memory_bytes: quantity("memory", bytes),
            },
            gpus_only: !of_gpus.is_empty(),
            accepts_new: ready && others.is_empty() && !spec.unschedulable.unwrap_or(false),
            is_lost,
            name,
        }
    }
}
