//! Write that opens a gate.

use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use serde_json::Value;

use crate::labels;
use crate::state::Key;

/// Result of an attempt to open a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opened {
    /// The gate is open.
    Done,
    /// The pod has changed or is gone. A change is seen soon, and tried again.
    Outdated,
}

/// Opens the gate of a pod by `patch`, of [`Gate::opening`](super::Gate::opening) or
/// [`Gate::preferring`](super::Gate::preferring).
///
/// # Errors
///
/// The refusal of the API server, or the reason there is no answer.
pub async fn open(client: &Client, pod: &Key, patch: Value) -> Result<Opened, kube::Error> {
    let api: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace);
    let patch = Patch::Merge(patch);
    let by_us = PatchParams::apply(labels::MANAGER);
    match api.patch_metadata(&pod.name, &by_us, &patch).await {
        Ok(_) => Ok(Opened::Done),
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(Opened::Outdated),
        Err(error) => Err(error),
    }
}
