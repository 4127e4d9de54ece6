//! The definitions that a cluster needs.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt as _;
use thiserror::Error;

use super::function::InferenceFunction;
use super::profile::ModelProfile;

/// The definitions cannot be written.
#[derive(Debug, Error)]
#[error("custom resource definition {name}: {source}")]
pub struct CrdError {
    /// Of which resource.
    name: String,
    /// What is wrong.
    source: Box<dyn std::error::Error + Send + Sync>,
}

/// The definitions of both resources.
pub fn crds() -> [CustomResourceDefinition; 2] {
    [InferenceFunction::crd(), ModelProfile::crd()]
}

/// The same as YAML, as `kubectl apply -f` takes it.
pub fn crds_yaml() -> Result<String, CrdError> {
    let mut text = String::new();
    for crd in crds() {
        let name = crd.metadata.name.clone().unwrap_or_default();
        let document = serde_saphyr::to_string(&crd);
        let document = document.map_err(|source| CrdError {
            name,
            source: Box::new(source),
        })?;
        text.push_str("---\n");
        text.push_str(&document);
    }
    Ok(text)
}
