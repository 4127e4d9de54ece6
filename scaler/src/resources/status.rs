//! Status of an `InferenceFunction`.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The operator's report on a function.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct InferenceFunctionStatus {
    /// Conditions Ready, LoadKnown, ProfileFound, Feasible, Healthy and Progressing, AsProfiled where `latencyQuery` or `gateway` is set, and Profiled where the operator measures.
    #[serde(default)]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// Generation of the resource that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Requests per second, as last measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<String>,
    /// Number of instances that should run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instances: Option<u32>,
    /// Number of ready instances.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<u32>,
    /// Instances by configuration.
    #[serde(default)]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub configurations: Vec<ConfigurationStatus>,
    /// The reason for the current state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Instances of one configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigurationStatus {
    /// Name of the configuration.
    pub name: String,
    /// Number of instances that should run.
    pub replicas: u32,
    /// Number of ready instances.
    #[serde(default)]
    pub ready: u32,
}

/// A condition, as in Kubernetes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Type of the condition.
    pub r#type: String,
    /// True, False or Unknown.
    #[schemars(extend("enum" = ["True", "False", "Unknown"]))]
    pub status: String,
    /// The reason, in one word.
    pub reason: String,
    /// The reason, in a sentence.
    #[serde(default)]
    pub message: String,
    /// Generation of the resource that the condition describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Time of the last change of status, in RFC 3339.
    #[schemars(extend("format" = "date-time"))]
    pub last_transition_time: String,
}
