//! A model to serve, as a resource.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::load::LoadSpec;
use super::percentile::Percentile;
use super::scale_in::ScaleInSpec;
use super::status::InferenceFunctionStatus;
use super::template::PodTemplate;

/// A model to serve: its profile, its objective, its load and its pods.
#[derive(Debug, Clone, Default, PartialEq, CustomResource, Serialize, Deserialize, KubeSchema)]
#[kube(
    group = "tetris.dev",
    version = "v1alpha1",
    kind = "InferenceFunction",
    namespaced,
    status = "InferenceFunctionStatus",
    shortname = "ifn",
    category = "tetris",
    derive = "PartialEq",
    doc = "A model to serve: its profile, its objective, its load and its pods.",
    validation = Rule::new("self.metadata.name.size() <= 63").message("the name becomes a label's value: at most 63 characters"),
    printcolumn(name = "Load", type_ = "string", json_path = ".status.load", description = "Requests per second"),
    printcolumn(name = "Instances", type_ = "integer", json_path = ".status.instances"),
    printcolumn(name = "Ready", type_ = "integer", json_path = ".status.ready"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].reason"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[x_kube(validation = Rule::new("self.minInstances <= self.maxInstances").message("minInstances must not exceed maxInstances").field_path(".minInstances"))]
pub struct InferenceFunctionSpec {
    /// The ModelProfile of this namespace.
    #[schemars(length(min = 1, max = 253))]
    pub profile: String,
    /// The service level objective.
    pub slo: SloSpec,
    /// The pods. What the operator adds: TETRIS_BATCH, TETRIS_CONCURRENCY and TETRIS_CPU_MILLIS, requests of
    /// CPU and memory, labels, the store's volume, and preferences for nodes that have the tensors.
    pub template: PodTemplate,
    /// The container that gets batch and concurrency; the first of the template by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub container: Option<String>,
    /// Where the load is read.
    pub load: LoadSpec,
    /// So many instances stay, whatever the load.
    #[serde(default)]
    #[schemars(range(min = 0, max = 20_000))]
    pub min_instances: u32,
    /// No more instances than that, whatever the load.
    #[serde(default = "max_instances")]
    #[schemars(range(min = 1, max = 20_000))]
    pub max_instances: u32,
    /// Only these of the profile's configurations, by name, such as c2000-b4-p2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512), inner(length(min = 8, max = 63)))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub configurations: Option<Vec<String>>,
    /// Who scales. Cannot be changed: Deployments of both would serve at once.
    #[serde(default)]
    #[x_kube(validation = Rule::new("self == oldSelf").message("scaling cannot be changed; make another function"))]
    pub scaling: Scaling,
    /// How careful releases are.
    #[serde(default)]
    pub scale_in: ScaleInSpec,
    /// The store on the node; by default that of the namespace, and of its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub store: Option<String>,
    /// What a millicore costs beside memory, in bytes.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1_099_511_627_776_u64))]
    pub alpha_bytes_per_millicore: u64,
}

/// A service level objective.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SloSpec {
    /// The longest that a request may take.
    #[schemars(range(min = 1, max = 7_200_000))]
    pub latency_millis: u64,
    /// Which of the profile's latencies has to be within it.
    #[serde(default)]
    pub percentile: Percentile,
}

/// Who scales.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[schemars(inline)]
pub enum Scaling {
    /// The operator, by a Deployment for each chosen configuration.
    #[default]
    Operator,
    /// Another autoscaler; the operator decides and publishes, and touches no Deployment.
    External,
}

/// As many as most clusters have nodes for.
const fn max_instances() -> u32 {
    100
}
