//! Definitions of the custom resources.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt as _;
use thiserror::Error;

use super::function::InferenceFunction;
use super::profile::ModelProfile;

/// A custom resource definition that could not be written as YAML.
#[derive(Debug, Error)]
#[error("custom resource definition {name}: {source}")]
pub struct CrdError {
    /// Name of the resource.
    name: String,
    /// Cause.
    source: Box<dyn std::error::Error + Send + Sync>,
}

/// Returns the definitions of both resources.
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
