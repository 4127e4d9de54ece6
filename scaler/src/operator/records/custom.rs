//! Custom resources, parsed one by one, so that an invalid one does not hide the others.

use std::sync::Arc;

use kube::ResourceExt as _;
use kube::core::DynamicObject;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::labels;
use crate::resources::{
    CheckedFunction, CheckedProfile, FieldProblem, InferenceFunction, InferenceFunctionStatus,
    LoadSource, ModelProfile, ModelProfileSpec, parse,
};
use crate::state::Key;

/// An `InferenceFunction`.
#[derive(Debug, Clone, PartialEq)]
pub struct FunctionRecord {
    /// Namespace and name of the function.
    pub key: Key,
    /// Unique id, different for a recreated function.
    pub uid: String,
    /// Generation, which changes with the spec.
    pub generation: i64,
    /// True if the function is being deleted.
    pub is_deleting: bool,
    /// The validated function, or the invalid field.
    pub function: Result<Arc<CheckedFunction>, FieldProblem>,
    /// Last written status.
    pub status: InferenceFunctionStatus,
}

/// A `ModelProfile`.
#[derive(Debug, Clone, PartialEq)]
pub struct ProfileRecord {
    /// Namespace and name of the profile.
    pub key: Key,
    /// Uid and generation, which change with the spec and with a recreated profile.
    pub version: (String, i64),
    /// The validated profile, or the invalid field.
    pub profile: Result<Arc<CheckedProfile>, FieldProblem>,
    /// Name of the function that the operator measured it for, by the label; `None` for a user's.
    pub function: Option<String>,
    /// Hash of what was measured, by the label; `None` for an assumed one, or a user's.
    pub content: Option<String>,
    /// Type of the machine that it was measured on.
    pub machine: Option<String>,
    /// The profile as written, of those that the operator measured.
    pub spec: Option<Arc<ModelProfileSpec>>,
}

impl FunctionRecord {
    /// Parses an object.
    pub fn read(mut object: DynamicObject) -> Self {
        // A status that cannot be parsed is written again.
        let status = object
            .data
            .as_object_mut()
            .and_then(|it| it.remove("status"));
        let status = status.and_then(|status| serde_json::from_value(status).ok());
        let function = typed::<InferenceFunction>(&object);
        Self {
            key: key(&object),
            uid: object.uid().unwrap_or_default(),
            generation: object.metadata.generation.unwrap_or_default(),
            is_deleting: object.metadata.deletion_timestamp.is_some(),
            function: function
                .and_then(|function| function.checked())
                .map(Arc::new),
            status: status.unwrap_or_default(),
        }
    }

    /// Returns true if its latency in service is measured: by a query, or by the gateways.
    pub fn measures_latency(&self) -> bool {
        let load = self.function.as_ref().map(|function| &function.load);
        load.is_ok_and(|load| match load {
            LoadSource::Static(_) => false,
            LoadSource::Prometheus(queries) => queries.latency_query.is_some(),
            LoadSource::Gateway => true,
        })
    }
}

impl ProfileRecord {
    /// Parses an object.
    pub fn read(object: &DynamicObject) -> Self {
        let profile = typed::<ModelProfile>(object);
        let generation = object.metadata.generation.unwrap_or_default();
        let label = |name| object.labels().get(name).cloned();
        let content = label(labels::MEASURED_CONTENT);
        let spec = profile.as_ref().ok().filter(|_| content.is_some());
        Self {
            key: key(object),
            version: (object.uid().unwrap_or_default(), generation),
            function: label(labels::PROFILING),
            spec: spec.map(|profile| Arc::new(profile.spec.clone())),
            content,
            machine: object.annotations().get(labels::MEASURED_MACHINE).cloned(),
            profile: profile.and_then(|profile| profile.checked()).map(Arc::new),
        }
    }
}

/// Parses an object, with the path of the field that does not parse.
pub(in crate::operator) fn typed<T: DeserializeOwned>(
    object: &DynamicObject,
) -> Result<T, FieldProblem> {
    let document = serde_json::to_value(object);
    let document: Value = document.map_err(|error| FieldProblem::new("", error.to_string()))?;
    parse(document)
}

fn key(object: &DynamicObject) -> Key {
    Key::new(object.namespace().unwrap_or_default(), object.name_any())
}
