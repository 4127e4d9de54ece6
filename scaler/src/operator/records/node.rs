//! Nodes.

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use tetris_scaler_core::Resources;

use crate::labels;
use crate::nodes::{bytes, millis};

/// A node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeRecord {
    /// Its name.
    pub name: String,
    /// What preferences name it by.
    pub hostname: String,
    /// What pods can have of it.
    pub allocatable: Resources,
    /// Whether it is ready, not cordoned, and without a taint that keeps pods away. Whether pods tolerate a taint
    /// is the scheduler's to know: such a node is not preferred, and pods may come to it all the same.
    pub accepts_new: bool,
}

impl NodeRecord {
    /// What a node says.
    pub fn read(node: &Node) -> Self {
        let name = node.name_any();
        let spec = node.spec.clone().unwrap_or_default();
        let status = node.status.clone().unwrap_or_default();
        let allocatable = status.allocatable.unwrap_or_default();
        let quantity = |name, read: fn(&str) -> Option<u64>| {
            let found = allocatable.get(name);
            found.and_then(|quantity| read(&quantity.0)).unwrap_or(0)
        };
        let mut conditions = status.conditions.iter().flatten();
        let ready = conditions.any(|one| one.type_ == "Ready" && one.status == "True");
        let mut taints = spec.taints.iter().flatten();
        let tainted =
            taints.any(|taint| matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute"));
        let hostname = node.labels().get(labels::HOSTNAME);
        Self {
            hostname: hostname.unwrap_or(&name).clone(),
            allocatable: Resources {
                cpu_millis: quantity("cpu", millis),
                memory_bytes: quantity("memory", bytes),
            },
            accepts_new: ready && !tainted && !spec.unschedulable.unwrap_or(false),
            name,
        }
    }
}
