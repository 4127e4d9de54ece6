//! Custom resources, read one by one: one that cannot be read must not keep the others from being seen.

use std::sync::Arc;

use kube::ResourceExt as _;
use kube::core::DynamicObject;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::resources::{
    CheckedFunction, CheckedProfile, FieldProblem, InferenceFunction, InferenceFunctionStatus,
    ModelProfile, parse,
};
use crate::state::Key;

/// An `InferenceFunction`.
#[derive(Debug, Clone, PartialEq)]
pub struct FunctionRecord {
    /// Its namespace and name.
    pub key: Key,
    /// Different for another of the same name.
    pub uid: String,
    /// Changes with its spec.
    pub generation: i64,
    /// Whether it is being deleted.
    pub is_deleting: bool,
    /// What it says, or what is wrong with it.
    pub function: Result<Arc<CheckedFunction>, FieldProblem>,
    /// What was reported last.
    pub status: InferenceFunctionStatus,
}

/// A `ModelProfile`.
#[derive(Debug, Clone, PartialEq)]
pub struct ProfileRecord {
    /// Its namespace and name.
    pub key: Key,
    /// Changes with its spec, and with another of the same name.
    pub version: (String, i64),
    /// What it says, or what is wrong with it.
    pub profile: Result<Arc<CheckedProfile>, FieldProblem>,
}

impl FunctionRecord {
    /// What an object says.
    pub fn read(mut object: DynamicObject) -> Self {
        // A status that cannot be read is written anew.
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
            function: function.and_then(|one| one.checked()).map(Arc::new),
            status: status.unwrap_or_default(),
        }
    }
}

impl ProfileRecord {
    /// What an object says.
    pub fn read(object: &DynamicObject) -> Self {
        let profile = typed::<ModelProfile>(object);
        let generation = object.metadata.generation.unwrap_or_default();
        Self {
            key: key(object),
            version: (object.uid().unwrap_or_default(), generation),
            profile: profile.and_then(|one| one.checked()).map(Arc::new),
        }
    }
}

fn typed<T: DeserializeOwned>(object: &DynamicObject) -> Result<T, FieldProblem> {
    let document = serde_json::to_value(object);
    let document: Value = document.map_err(|error| FieldProblem::new("", error.to_string()))?;
    parse(document)
}

fn key(object: &DynamicObject) -> Key {
    Key::new(object.namespace().unwrap_or_default(), object.name_any())
}
