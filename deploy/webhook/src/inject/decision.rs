//! Decision if a pod gets the store at all.

use serde_json::Value;

use super::LABEL;
use super::warnings::{Warnings, shown};

/// The webhook that is asked, of two. The API server selects pods for each; a request does not tell a namespace's labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// The one for labeled pods: only the pod's own label counts.
    Pod,
    /// The one for labeled namespaces: pods get the store unless their own label says otherwise.
    Namespace,
}

/// Returns true if the labels ask for the store. The pod's own is looked at again, so that a wrong selector harms nothing.
pub(super) fn wanted(pod: &Value, scope: Scope, warnings: &mut Warnings) -> bool {
    let label = pod
        .get("metadata")
        .and_then(|metadata| metadata.get("labels"))
        .and_then(|labels| labels.get(LABEL));
    match label.map(Value::as_str) {
        None => scope == Scope::Namespace,
        Some(Some("true")) => true,
        Some(Some("false")) => false,
        Some(found) => {
            let found = shown(found.unwrap_or("no string"));
            warnings.push(format!(
                "nothing injected: label {LABEL}: expected \"true\" or \"false\", found {found}"
            ));
            false
        }
    }
}

/// Returns the reason a pod that asks for the store cannot have it.
pub(super) fn unsupported(pod: &Value, spec: &Value) -> Option<&'static str> {
    let text = |pointer: &str| spec.pointer(pointer).and_then(Value::as_str);
    let windows = text("/os/name") == Some("windows")
        || text("/nodeSelector/kubernetes.io~1os") == Some("windows");
    if windows {
        return Some(
            "nothing injected: the store is for Linux pods; set the label tetris.dev/inject: \"false\" on this one",
        );
    }
    // Its containers run already, and the kubelet compares it with what it made it from.
    let mirror = pod.pointer("/metadata/annotations/kubernetes.io~1config.mirror");
    mirror.map(
        |_| "nothing injected: a static pod is what its node's manifest says; add the volume there",
    )
}
