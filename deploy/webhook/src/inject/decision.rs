//! Decision if a pod gets the store at all.

use serde_json::Value;

use super::LABEL;
use super::warnings::{Warnings, shown};

/// The asked webhook. The API server selects pods for each; a request does not tell a namespace's labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// The one for labeled pods: only the pod's own label counts.
    Pod,
    /// The one for labeled namespaces: pods get the store unless their own label differs.
    Namespace,
    /// The one for namespaces with the label `python`: pods get the Python package as well, unless their own label says
    /// otherwise.
    PythonNamespace,
    /// The one for namespaces with the label `tetris.dev/placement`: pods that name their model get the scaler's gate, and
    /// nothing else.
    Placement,
}

/// A pod's request, by labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Request {
    /// The store.
    Store,
    /// The store and the Python package.
    StoreAndPython,
}

/// The request of the labels, if there is one. The pod's own is looked at again, so that a wrong selector harms nothing.
pub(super) fn request(pod: &Value, scope: Scope, warnings: &mut Warnings) -> Option<Request> {
    let label = pod
        .get("metadata")
        .and_then(|metadata| metadata.get("labels"))
        .and_then(|labels| labels.get(LABEL));
    match label.map(Value::as_str) {
        None => match scope {
            Scope::Pod | Scope::Placement => None,
            Scope::Namespace => Some(Request::Store),
            Scope::PythonNamespace => Some(Request::StoreAndPython),
        },
        Some(Some("true")) => Some(Request::Store),
        Some(Some("python")) => Some(Request::StoreAndPython),
        Some(Some("false")) => None,
        Some(found) => {
            let found = shown(found.unwrap_or("no string"));
            warnings.push(format!(
                "nothing injected: label {LABEL}: expected \"true\", \"python\" or \"false\", found {found}"
            ));
            None
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
