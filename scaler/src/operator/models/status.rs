//! Reports on models. Purely.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;

use super::records::{KeeperPod, ModelRecord, PodState};
use crate::resources::{Condition, LISTED_NODES, ModelNodeStatus, ModelStatus};

/// The condition Ready, without its times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ready {
    pub(super) is_true: bool,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl Ready {
    pub(super) fn not(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            is_true: false,
            reason,
            message: message.into(),
        }
    }
}

/// The status with this condition, and these nodes.
pub(super) fn status(
    record: &ModelRecord,
    ready: &Ready,
    (wanted, pods): (u32, &BTreeMap<&str, &KeeperPod>),
    now: Timestamp,
) -> ModelStatus {
    let condition = if ready.is_true { "True" } else { "False" };
    let mut last = record.status.conditions.iter();
    let last = last.find(|last| last.r#type == "Ready" && last.status == condition);
    let since = last.map_or_else(
        || now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        |last| last.last_transition_time.clone(),
    );
    let mut by_state: Vec<_> = pods.iter().collect();
    by_state.sort_by_key(|(node, pod)| (pod.state, **node));
    let nodes = by_state.into_iter().take(LISTED_NODES);
    ModelStatus {
        conditions: vec![Condition {
            r#type: "Ready".to_owned(),
            status: condition.to_owned(),
            reason: ready.reason.to_owned(),
            message: ready.message.chars().take(1_000).collect(),
            observed_generation: Some(record.generation),
            last_transition_time: since,
        }],
        observed_generation: Some(record.generation),
        wanted,
        present: count(pods, PodState::Present),
        description: None,
        nodes: nodes.map(|(node, pod)| of_node(node, pod)).collect(),
    }
}

/// The condition of a model whose DaemonSet is as it should be.
pub(super) fn ready(wanted: Option<u32>, pods: &BTreeMap<&str, &KeeperPod>) -> Ready {
    let Some(wanted) = wanted else {
        return Ready::not("Ordered", "its pods are being made");
    };
    if wanted == 0 {
        return Ready::not("NoNodes", "no node is to have it; see spec.nodes");
    }
    let present = count(pods, PodState::Present);
    if present >= wanted {
        return Ready {
            is_true: true,
            reason: "Present",
            message: format!("on {present} nodes"),
        };
    }
    let numbers = format!("on {present} of {wanted} nodes");
    let mut failed = pods.iter().filter(|(_, pod)| pod.state == PodState::Failed);
    match failed.next() {
        Some((node, pod)) => {
            let others = match failed.count() {
                0 => String::new(),
                others => format!(", and on {others} more"),
            };
            let cause = pod.message.as_deref().unwrap_or("no reason is known");
            let message = format!("{numbers}; it failed on {node}{others}: {cause}");
            Ready::not("Failed", message)
        }
        None => Ready::not("Pulling", numbers),
    }
}

fn count(pods: &BTreeMap<&str, &KeeperPod>, state: PodState) -> u32 {
    let pods = pods.values().filter(|pod| pod.state == state);
    u32::try_from(pods.count()).unwrap_or(u32::MAX)
}

fn of_node(node: &str, pod: &KeeperPod) -> ModelNodeStatus {
    let state = match pod.state {
        PodState::Failed => "Failed",
        PodState::Pending => "Pending",
        PodState::Pulling => "Pulling",
        PodState::Present => "Present",
    };
    ModelNodeStatus {
        name: node.to_owned(),
        state: state.to_owned(),
        failures: pod.failures,
        message: pod.message.clone(),
        ..ModelNodeStatus::default()
    }
}
