//! Pods: instances of the functions, and other pods that take resources of nodes.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use tetris_scaler_core::{InstanceView, Phase, Resources};

use super::functions::Function;
use crate::labels;
use crate::nodes::{QuantityError, requests};
use crate::state::Key;

/// Role of a pod in a plan.
pub(super) enum Role {
    /// A pod that has ended or is on no node.
    Nothing,
    /// An instance of a function, in a configuration of its profile.
    Instance(InstanceView),
    /// Another pod, with its node and resources.
    Other { node: String, takes: Resources },
}

/// Returns the role of `pod`; `nodes` are indices by name.
pub(super) fn role(
    pod: &Pod,
    functions: &[Function],
    nodes: &BTreeMap<&str, usize>,
) -> Result<Role, QuantityError> {
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    if matches!(phase, Some("Succeeded" | "Failed")) {
        return Ok(Role::Nothing);
    }
    let spec = pod.spec.as_ref();
    let node = spec.and_then(|spec| spec.node_name.as_deref());
    if let Some(instance) = instance(pod, functions, node.and_then(|node| nodes.get(node))) {
        return Ok(Role::Instance(instance));
    }
    match (spec, node) {
        (Some(spec), Some(node)) => Ok(Role::Other {
            node: node.to_owned(),
            takes: requests(spec)?,
        }),
        _ => Ok(Role::Nothing),
    }
}

fn instance(pod: &Pod, functions: &[Function], node: Option<&usize>) -> Option<InstanceView> {
    let namespace = pod.namespace().unwrap_or_default();
    let key = Key::new(namespace, pod.labels().get(labels::FUNCTION)?);
    let name = pod.labels().get(labels::CONFIGURATION)?;
    let at = functions.iter().position(|function| function.key == key)?;
    let names = functions.get(at).map(|function| &function.names)?;
    let configuration = names.iter().position(|entry| entry == name)?;
    Some(InstanceView {
        name: pod.name_any(),
        function: at,
        configuration: Some(configuration),
        node: node.copied(),
        gpu: None,
        phase: phase(pod),
        load: None,
        retiring: false,
    })
}

fn phase(pod: &Pod) -> Phase {
    if pod.metadata.deletion_timestamp.is_some() {
        return Phase::Leaving;
    }
    let conditions = pod
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    let ready = conditions.into_iter().flatten();
    let mut ready = ready.filter(|condition| condition.type_ == "Ready");
    match ready.next() {
        Some(condition) if condition.status != "True" => Phase::Starting,
        // A handwritten pod has no status.
        _ => Phase::Ready,
    }
}
