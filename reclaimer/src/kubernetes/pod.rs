//! The few fields of a pod that matter here. Everything else is skipped while it is read: that
//! saves memory, and a field of a newer Kubernetes cannot make a pod unreadable.

use kube::api::{ApiResource, Object, ObjectMeta};
use serde::Deserialize;

use super::annotation::{DeclaredModels, parse_annotation};
use super::options::WatchOptions;
use crate::keep_warm::Pod;

/// A pod as the API server sends it.
pub(super) type BoundPod = Object<Spec, Status>;

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Spec {
    node_name: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct Status {
    phase: Option<String>,
}

/// A pod's relation to this node.
pub(super) enum Seen {
    /// Nothing: it is bound elsewhere, or it is not said which pod it is.
    Elsewhere,
    /// It will not run (any more).
    Ended(Pod),
    /// It runs or is about to, and declares this.
    Runs(Pod, DeclaredModels),
}

/// The resource to ask for.
pub(super) fn resource() -> ApiResource {
    ApiResource::erase::<k8s_openapi::api::core::v1::Pod>(&())
}

/// The pod's identity; `None` if it lacks a field that every pod has.
pub(super) fn identity(metadata: &ObjectMeta) -> Option<Pod> {
    Some(Pod {
        namespace: metadata.namespace.clone()?,
        name: metadata.name.clone()?,
        uid: metadata.uid.clone()?,
    })
}

/// Reads a pod's relation to this node and its declarations.
///
/// A pod counts until it has ended. One with a deletion timestamp still counts: its containers run
/// through the grace period, which can be long, and may load models in it, or be restarted. The
/// same holds for the phase `Unknown` and for phases to come.
pub(super) fn look(pod: &BoundPod, options: &WatchOptions) -> Seen {
    let here = pod.spec.node_name.as_deref() == Some(options.node());
    let Some(identity) = identity(&pod.metadata).filter(|_| here) else {
        return Seen::Elsewhere;
    };
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    if matches!(phase, Some("Succeeded" | "Failed")) {
        return Seen::Ended(identity);
    }
    let annotations = pod.metadata.annotations.as_ref();
    let list = annotations.and_then(|annotations| annotations.get(options.annotation()));
    Seen::Runs(
        identity,
        list.map(|list| parse_annotation(list)).unwrap_or_default(),
    )
}
