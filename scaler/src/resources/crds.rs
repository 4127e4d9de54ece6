//! Definitions of the custom resources.

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt as _;
use thiserror::Error;

use super::function::InferenceFunction;
use super::model::Model;
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

/// Returns the definitions of all resources.
pub fn crds() -> [CustomResourceDefinition; 3] {
    let mut crds = [InferenceFunction::crd(), ModelProfile::crd(), Model::crd()];
    for version in crds.iter_mut().flat_map(|crd| &mut crd.spec.versions) {
        let schema = version.schema.as_mut();
        if let Some(schema) = schema.and_then(|schema| schema.open_api_v3_schema.as_mut()) {
            use_known_formats(schema);
        }
    }
    crds
}

/// The API server warns of formats that it does not know, and it knows no unsigned integers. The minimum implies it.
fn use_known_formats(schema: &mut JSONSchemaProps) {
    if matches!(schema.format.as_deref(), Some("uint32" | "uint64")) {
        schema.format = Some("int64".to_owned());
    }
    let properties = schema.properties.iter_mut();
    for property in properties.flat_map(BTreeMap::values_mut) {
        use_known_formats(property);
    }
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
        use_known_formats(items);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        use_known_formats(values);
    }
}

/// The same as YAML, as `kubectl apply --server-side -f` takes it.
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
