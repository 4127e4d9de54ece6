//! The custom resource `InferenceFunction`.

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tetris_scaler_core::OperatorDefaults;

use super::callers::CallersSpec;
use super::engine::{EngineSpec, ProfilingSpec};
use super::load::LoadSpec;
use super::percentile::Percentile;
use super::rollout::RolloutSpec;
use super::scale_in::ScaleInSpec;
use super::status::InferenceFunctionStatus;
use super::template::PodTemplate;

/// A model to serve: its profile, objective, load and pods.
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
    doc = "A model to serve: its profile, objective, load and pods.",
    validation = Rule::new("self.metadata.name.size() <= 63").message("the name becomes a label's value: at most 63 characters"),
    printcolumn(name = "Load", type_ = "string", json_path = ".status.load", description = "Requests per second"),
    printcolumn(name = "Instances", type_ = "integer", json_path = ".status.instances"),
    printcolumn(name = "Ready", type_ = "integer", json_path = ".status.ready"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].reason"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[x_kube(
    validation = Rule::new("self.minInstances <= self.maxInstances").message("minInstances must not exceed maxInstances").field_path(".minInstances"),
    validation = Rule::new("has(self.template) != has(self.engine)").message("a function has a template or an engine"),
    validation = Rule::new("!has(self.engine) || has(self.model)").message("engine needs model, the name of a Model").field_path(".engine"),
    validation = Rule::new("has(self.profile) || !has(self.gpu)").message("configurations with a GPU are measured by tetris-scaler profile: name the profile").field_path(".gpu")
)]
pub struct InferenceFunctionSpec {
    /// Name of a ModelProfile in this namespace. Without it the operator measures the function by a Job, and writes the
    /// ModelProfile with the function's name; until then one instance is taken to need what the template requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub profile: Option<String>,
    /// Measurement of a function without a profile.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub profiling: ProfilingSpec,
    /// Service level objective.
    pub slo: SloSpec,
    /// Pod template. The operator adds TETRIS_BATCH, TETRIS_BATCH_WAIT_MILLIS, TETRIS_CONCURRENCY and
    /// TETRIS_CPU_MILLIS, requests of CPU and memory, labels, the store's volume, a preference for nodes that hold the
    /// tensors, and a scheduling gate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<PodTemplate>,
    /// Server of the model, in the place of the template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine: Option<EngineSpec>,
    /// Container that gets batch size and concurrency; by default the first of the template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub container: Option<String>,
    /// Source of the load.
    pub load: LoadSpec,
    /// Minimum number of instances.
    #[serde(default)]
    #[schemars(range(min = 0, max = 20_000))]
    pub min_instances: u32,
    /// Maximum number of instances.
    #[serde(default = "max_instances")]
    #[schemars(range(min = 1, max = 20_000))]
    pub max_instances: u32,
    /// GPU of an instance. Without it only configurations without a GPU are used, with it only those
    /// with one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<GpuSpec>,
    /// Names of the profile's configurations that may be used, such as c2000-b4-p2. By default all
    /// may be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512), inner(length(min = 8, max = 63)))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub configurations: Option<Vec<String>>,
    /// Owner of the replica counts. Immutable: after a change, Deployments of both owners would
    /// serve at once.
    #[serde(default)]
    #[x_kube(validation = Rule::new("self == oldSelf").message("scaling cannot be changed; create another function"))]
    pub scaling: Scaling,
    /// Limits on releases of instances.
    #[serde(default)]
    pub scale_in: ScaleInSpec,
    /// Pods that a change of the template replaces at a time.
    #[serde(default)]
    pub rollout: RolloutSpec,
    /// Name of the store on the node. By default the store of the namespace, which has its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub store: Option<String>,
    /// Name of a Model of this namespace. Containers find its files below /models/NAME, and pods wait for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 52),
        regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    )]
    pub model: Option<String>,
    /// Paths that the gateway serves: names of protocols (inference, openai), or paths such as
    /// POST /predict, /v1/*/run, /docs/** or !/docs/secret/**. By default those of both protocols.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64), inner(length(min = 1, max = 256)))]
    pub paths: Option<Vec<String>>,
    /// Callers besides those of this namespace.
    #[serde(default, skip_serializing_if = "is_default")]
    pub callers: CallersSpec,
    /// Price of a millicore in bytes of memory: that of a core divided by that of a GiB, times
    /// 1073742. With 0 a plan takes the least memory, whatever CPU that needs.
    #[serde(default = "alpha_bytes_per_millicore")]
    #[schemars(range(min = 0, max = 1_099_511_627_776_u64))]
    pub alpha_bytes_per_millicore: u64,
}

fn is_default(callers: &CallersSpec) -> bool {
    *callers == CallersSpec::default()
}

fn is_usual(profiling: &ProfilingSpec) -> bool {
    *profiling == ProfilingSpec::default()
}

const fn alpha_bytes_per_millicore() -> u64 {
    OperatorDefaults::ALL.alpha_bytes_per_millicore
}

/// A service level objective.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SloSpec {
    /// Maximum latency of a request, in milliseconds.
    #[schemars(range(min = 1, max = 7_200_000))]
    pub latency_millis: u64,
    /// Percentile of the profile's latencies that must meet the objective.
    #[serde(default)]
    pub percentile: Percentile,
}

/// GPU of an instance, shared with other instances through the node's GPU mirror.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GpuSpec {
    /// Type of the GPU, as the profile names it. By default any type that the profile has.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63), regex(pattern = "^[ -~]+$"))]
    pub kind: Option<String>,
    /// Private device memory of an instance, in bytes, if it needs more than was measured, such as
    /// for a larger cache. The container gets it as TETRIS_GPU_OWN_BYTES.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1_125_899_906_842_624_u64))]
    pub own_bytes: Option<u64>,
    /// Runtime class that gives containers the devices in NVIDIA_VISIBLE_DEVICES. The template's own
    /// comes first.
    #[serde(default = "runtime_class")]
    #[schemars(length(min = 1, max = 253))]
    pub runtime_class: String,
}

/// Name that the installations of NVIDIA's container runtime give it.
fn runtime_class() -> String {
    "nvidia".to_owned()
}

/// Owner of a function's replica counts.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[schemars(inline)]
pub enum Scaling {
    /// The operator, with a Deployment for each chosen configuration.
    #[default]
    Operator,
    /// Another autoscaler. The operator publishes its decisions and changes no Deployment.
    External,
}

/// Default of `maxInstances`; more than most clusters have room for.
const fn max_instances() -> u32 {
    100
}
