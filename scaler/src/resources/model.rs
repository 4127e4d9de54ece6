//! The custom resource `Model`.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::status::Condition;

/// Number of nodes whose state a status lists.
pub const LISTED_NODES: usize = 64;

/// A model that nodes have before their pods ask for it.
#[derive(Debug, Clone, Default, PartialEq, CustomResource, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "tetris.dev",
    version = "v1alpha1",
    kind = "Model",
    namespaced,
    status = "ModelStatus",
    category = "tetris",
    derive = "PartialEq",
    doc = "A model that nodes have before their pods ask for it.",
    validation = Rule::new("self.metadata.name.size() <= 52 && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')").message("the name becomes part of pods' names: at most 52 lowercase letters, digits and hyphens"),
    printcolumn(name = "Source", type_ = "string", json_path = ".spec.source"),
    printcolumn(name = "Present", type_ = "integer", json_path = ".status.present", description = "Nodes that have it"),
    printcolumn(name = "Wanted", type_ = "integer", json_path = ".status.wanted", description = "Nodes that should have it"),
    printcolumn(name = "Task", type_ = "string", json_path = ".status.description.task"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].reason"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[x_kube(validation = Rule::new("!has(self.revision) || (self.source.startsWith('hf://') && !self.source.contains('@'))").message("revision is for a source hf://ORG/MODEL; other sources name theirs").field_path(".revision"))]
pub struct ModelSpec {
    /// Source of the files, as of `tetris pull`: hf://ORG/MODEL, s3://, gs:// or az://BUCKET/FOLDER,
    /// oci://REGISTRY/REPO:TAG, or https://HOST/FILE.
    #[schemars(
        length(min = 6, max = 1024),
        regex(pattern = "^(hf|s3|gs|az|oci|https|http)://[!-~]+$")
    )]
    pub source: String,
    /// Branch, tag or commit of a repository hf://. By default the main branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255), regex(pattern = "^[!-~]+$"))]
    pub revision: Option<String>,
    /// Patterns of the files to take. By default all but hidden files, and copies of the weights in other formats.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(min = 1, max = 256)))]
    pub include: Vec<String>,
    /// Patterns of the files to leave out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), inner(length(min = 1, max = 256)))]
    pub exclude: Vec<String>,
    /// Name of a Secret of this namespace with the source's credentials: keys such as HF_TOKEN or AWS_ACCESS_KEY_ID
    /// become the environment, and .dockerconfigjson the logins of registries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub secret: Option<String>,
    /// Further variables, none of them secret, such as HF_ENDPOINT or AWS_REGION.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 32))]
    pub environment: BTreeMap<String, String>,
    /// Service account of the pods that keep the model. Pods of this account mount it; where the daemons trust by
    /// namespace, all pods of the namespace do.
    #[serde(default = "default_account")]
    #[schemars(length(min = 1, max = 253))]
    pub service_account_name: String,
    /// Name of the store on the node. By default the store of the namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub store: Option<String>,
    /// Nodes that have it. By default all.
    #[serde(default, skip_serializing_if = "is_default")]
    pub nodes: ModelNodes,
    /// Time until which nodes keep it. Without it, as long as this resource is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_until: Option<Time>,
    /// Priority in a full store: models of lower ones that no pod has mounted give way to it. By default 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1000))]
    pub priority: Option<u32>,
    /// Priority class of the pods that keep it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub priority_class_name: Option<String>,
    /// Ranges fetched at once, each with 32 MiB of memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 64))]
    pub connections: Option<u32>,
    /// Most bytes per second that a node fetches, e.g. 500M.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 16),
        regex(pattern = "^[1-9][0-9]*(\\.[0-9]+)?(K|M|G|T|Ki|Mi|Gi|Ti)?$")
    )]
    pub limit_rate: Option<String>,
    /// Memory limit of the pods that keep it, e.g. 2Gi for a model with a tensor of 1 GiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 16))]
    pub memory: Option<String>,
}

/// Nodes that have a model.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ModelNodes {
    /// Labels of the nodes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 16))]
    pub match_labels: BTreeMap<String, String>,
    /// Number of nodes, of those with the labels. Those that have the model stay; nodes with most of the tensors in the
    /// profiles of its functions come first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 500))]
    pub count: Option<u32>,
    /// True for the nodes that the plan has for the functions that name the model, and `count` more, by default none.
    #[serde(default)]
    pub with_functions: bool,
}

fn is_default(nodes: &ModelNodes) -> bool {
    *nodes == ModelNodes::default()
}

fn default_account() -> String {
    "default".to_owned()
}

impl ModelSpec {
    /// The source with its revision, as `tetris pull` takes it.
    pub fn full_source(&self) -> String {
        match &self.revision {
            Some(revision) => format!("{}@{revision}", self.source),
            None => self.source.clone(),
        }
    }
}

/// The operator's report on a model.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelStatus {
    /// The condition Ready.
    #[serde(default)]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// Generation of the resource that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Number of nodes that should have the model.
    #[serde(default)]
    pub wanted: u32,
    /// Number of nodes that have it.
    #[serde(default)]
    pub present: u32,
    /// Description of its files, once a node has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<ModelDescription>,
    /// Its nodes, at most 64: first those that do not have it.
    #[serde(default)]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub nodes: Vec<ModelNodeStatus>,
}

/// Description of a model by its files, as a node has them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelDescription {
    /// Hash of source and revision for which the description was made.
    #[serde(default)]
    pub source_hash: String,
    /// Digest of the files: equal for models with the same files.
    #[serde(default)]
    pub content: String,
    /// Bytes of all files.
    #[serde(default)]
    pub bytes: u64,
    /// Formats of the weights: safetensors, onnx or gguf.
    #[serde(default)]
    pub formats: Vec<String>,
    /// First architecture of config.json, such as BertModel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
    /// Task of the architecture: embedding, classification or generation; none if it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
}

impl fmt::Display for ModelDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let task = self.task.as_deref().unwrap_or("an unknown task");
        let architecture = self.architecture.as_deref();
        let architecture = architecture.unwrap_or("no architecture in config.json");
        write!(f, "{task} ({architecture}; {})", self.formats.join(", "))
    }
}

/// State of a model on a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelNodeStatus {
    /// Name of the node.
    pub name: String,
    /// Present, Pulling, Pending or Failed.
    #[schemars(extend("enum" = ["Present", "Pulling", "Pending", "Failed"]))]
    pub state: String,
    /// Bytes in the store, while it is pulled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done_bytes: Option<u64>,
    /// Bytes of all files, while it is pulled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_bytes: Option<u64>,
    /// Bytes fetched per second of late, while it is pulled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_second: Option<u64>,
    /// Number of attempts that have failed.
    #[serde(default)]
    pub failures: u32,
    /// The reason for the state, or for the last failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_follows_its_source() {
        let mut spec = ModelSpec {
            source: "hf://org/model".to_owned(),
            ..ModelSpec::default()
        };
        assert_eq!(spec.full_source(), "hf://org/model");
        spec.revision = Some("v2".to_owned());
        assert_eq!(spec.full_source(), "hf://org/model@v2");
    }
}
