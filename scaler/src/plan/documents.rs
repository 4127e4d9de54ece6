//! Documents by kind.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Pod};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::error::PlanError;
use super::page::{Stored, is_page, stored};
use super::read::{Document, Header};
use crate::resources::{
    CheckedFunction, CheckedProfile, FieldProblem, InferenceFunction, ModelProfile, parse,
};
use crate::state::Key;

/// Namespace of objects without one, as in kubectl.
const DEFAULT_NAMESPACE: &str = "default";

/// A checked object and its source.
#[derive(Debug)]
pub(super) struct FoundDocument<T> {
    pub(super) at: String,
    pub(super) object: T,
}

/// Documents by kind.
#[derive(Debug, Default)]
pub(super) struct Documents {
    pub(super) profiles: BTreeMap<Key, FoundDocument<CheckedProfile>>,
    pub(super) functions: BTreeMap<Key, FoundDocument<CheckedFunction>>,
    pub(super) nodes: Vec<FoundDocument<Node>>,
    pub(super) plan_nodes: Vec<FoundDocument<PlanNodes>>,
    pub(super) pods: Vec<Pod>,
    pub(super) stored: Vec<Stored>,
    /// Numbers of ignored documents, by kind.
    pub(super) ignored: BTreeMap<String, usize>,
}

/// Nodes of a plan without a cluster.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct PlanNodes {
    /// Always `PlanNodes`.
    #[serde(rename = "kind")]
    _kind: String,
    pub(super) nodes: Vec<PlanNode>,
}

/// One node, or several equal ones.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct PlanNode {
    /// Name of the node, or prefix of several names: `a` makes `a-0`, `a-1` and so on.
    pub(super) name: String,
    /// Number of nodes; without it, one node called `name`.
    #[serde(default)]
    pub(super) count: Option<u32>,
    pub(super) cpu_millis: u64,
    pub(super) memory_bytes: u64,
    /// Size of the store in bytes. Without it, tensors come out of `memory_bytes`.
    #[serde(default)]
    pub(super) store_bytes: Option<u64>,
    /// Profiles with resident tensors, for all functions with that profile.
    #[serde(default)]
    pub(super) models: Vec<String>,
    /// GPUs with a GPU mirror.
    #[serde(default)]
    pub(super) gpus: Vec<PlanGpu>,
}

/// One GPU of a node, or several equal ones.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct PlanGpu {
    /// Type of the GPU, as profiles name it.
    #[serde(rename = "type")]
    pub(super) kind: String,
    /// Number of GPUs; 1 without it.
    #[serde(default)]
    pub(super) count: Option<u32>,
    /// Device memory, in bytes.
    pub(super) memory_bytes: u64,
    /// Part of it for tensors, in bytes: `device_bytes` of the daemon's GPU mirror.
    pub(super) mirror_bytes: u64,
    /// Profiles with tensors in device memory, for all functions with that profile.
    #[serde(default)]
    pub(super) models: Vec<String>,
}

impl Documents {
    pub(super) fn sort(documents: Vec<Document>) -> Result<Self, PlanError> {
        let mut sorted = Self::default();
        for document in documents {
            sorted.add(document)?;
        }
        Ok(sorted)
    }

    fn add(&mut self, mut document: Document) -> Result<(), PlanError> {
        let header = document.header();
        let kind = header.kind.as_str();
        if kind.is_empty() && is_page(&document) {
            self.stored.push(stored(&document)?);
            return Ok(());
        }
        name_it(&mut document, &header);
        match kind {
            "ModelProfile" => {
                let (at, profile) = read::<ModelProfile>(document)?;
                let checked = profile.checked().map_err(field(&at))?;
                add_once(&mut self.profiles, key(&header), at, checked)
            }
            "InferenceFunction" => {
                let (at, function) = read::<InferenceFunction>(document)?;
                let checked = function.checked().map_err(field(&at))?;
                add_once(&mut self.functions, key(&header), at, checked)
            }
            "Node" => {
                let (at, object) = read(document)?;
                self.nodes.push(FoundDocument { at, object });
                Ok(())
            }
            "PlanNodes" => {
                let (at, object) = read(document)?;
                self.plan_nodes.push(FoundDocument { at, object });
                Ok(())
            }
            "Pod" => {
                self.pods.push(read(document)?.1);
                Ok(())
            }
            "" => Err(PlanError::Document {
                at: document.at,
                problem: "found neither `kind` nor the `stores` of /inventory/objects, expected one of them".to_owned(),
            }),
            other => {
                *self.ignored.entry(other.to_owned()).or_default() += 1;
                Ok(())
            }
        }
    }
}

/// Adds kind and name to the document's source for messages, and the default namespace to the
/// object.
fn name_it(document: &mut Document, header: &Header) {
    let Header { kind, metadata } = header;
    let described = format!("{kind} {}", metadata.name);
    document.at = format!("{}, {}", document.at, described.trim_end());
    let namespaced = matches!(kind.as_str(), "ModelProfile" | "InferenceFunction" | "Pod");
    if namespaced
        && metadata.namespace.is_none()
        && let Some(Value::Object(metadata)) = document.value.get_mut("metadata")
    {
        metadata.insert("namespace".to_owned(), json!(DEFAULT_NAMESPACE));
    }
}

fn key(header: &Header) -> Key {
    let namespace = header.metadata.namespace.as_deref();
    Key::new(
        namespace.unwrap_or(DEFAULT_NAMESPACE),
        &header.metadata.name,
    )
}

fn read<T: DeserializeOwned>(document: Document) -> Result<(String, T), PlanError> {
    let Document { at, value } = document;
    let object = parse(value).map_err(field(&at))?;
    Ok((at, object))
}

fn field(at: &str) -> impl FnOnce(FieldProblem) -> PlanError {
    let at = at.to_owned();
    move |problem| PlanError::Field { at, problem }
}

fn add_once<T>(
    all: &mut BTreeMap<Key, FoundDocument<T>>,
    key: Key,
    at: String,
    object: T,
) -> Result<(), PlanError> {
    if let Some(other) = all.get(&key) {
        let problem = format!("{key} is in {} already; leave one out", other.at);
        return Err(PlanError::Document { at, problem });
    }
    all.insert(key, FoundDocument { at, object });
    Ok(())
}
