//! What was measured of a model, as a resource.

#![allow(
    clippy::duplicated_attributes,
    reason = "columns of the same type, in one attribute"
)]

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What was measured of a model: its configurations and its tensors.
#[derive(
    Debug, Clone, Default, PartialEq, Eq, CustomResource, Serialize, Deserialize, KubeSchema,
)]
#[kube(
    group = "tetris.dev",
    version = "v1alpha1",
    kind = "ModelProfile",
    namespaced,
    shortname = "mprof",
    category = "tetris",
    derive = "PartialEq",
    doc = "What was measured of a model: its configurations and its tensors. Written by tetris-scaler profile.",
    printcolumn(name = "Model", type_ = "string", json_path = ".spec.model"),
    printcolumn(name = "Measured", type_ = "string", json_path = ".spec.measured.at"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ModelProfileSpec {
    /// The model's name in the inference protocol.
    #[schemars(length(min = 1, max = 253))]
    pub model: String,
    /// The configurations that were measured; no two have the same cpuMillis, batch and concurrency.
    #[schemars(length(min = 1, max = 512))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["cpuMillis".into(), "batch".into(), "concurrency".into()]))]
    pub configurations: Vec<MeasuredConfiguration>,
    /// The model's tensors in the store; the largest, if there are more than 8192.
    #[serde(default)]
    #[schemars(length(max = 8192))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub objects: Vec<TensorObject>,
    /// Bytes of the tensors that are not listed. They are never counted as resident on a node.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1_125_899_906_842_624_u64))]
    pub unlisted_bytes: u64,
    /// Manifests of the model's files in the store.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1024), inner(length(min = 1, max = 128)))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub manifests: Vec<String>,
    /// How it was measured. Decides nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<Measurement>,
}

/// One measurement: c, b, p, and what came of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MeasuredConfiguration {
    /// CPU of an instance, in millicores.
    #[schemars(range(min = 1, max = 10_000_000))]
    pub cpu_millis: u64,
    /// The largest batch.
    #[schemars(range(min = 1, max = 4096))]
    pub batch: u32,
    /// Concurrent inference threads.
    #[schemars(range(min = 1, max = 4096))]
    pub concurrency: u32,
    /// Memory that every instance has for itself, in bytes, without what it shares through the store.
    #[schemars(range(min = 1, max = 1_125_899_906_842_624_u64))]
    pub own_bytes: u64,
    /// Latencies of one batch, in microseconds.
    pub latency_micros: LatencyMicros,
}

/// Latencies of one batch, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[x_kube(validation = Rule::new("self.p50 <= self.p90 && self.p90 <= self.p95 && self.p95 <= self.p99").message("p50, p90, p95 and p99 must not descend"))]
pub struct LatencyMicros {
    /// The median.
    #[schemars(range(min = 1, max = 3_600_000_000_u64))]
    pub p50: u64,
    /// The 90th percentile.
    #[schemars(range(min = 1, max = 3_600_000_000_u64))]
    pub p90: u64,
    /// The 95th percentile.
    #[schemars(range(min = 1, max = 3_600_000_000_u64))]
    pub p95: u64,
    /// The 99th percentile.
    #[schemars(range(min = 1, max = 3_600_000_000_u64))]
    pub p99: u64,
}

/// An object of the store.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TensorObject {
    /// BLAKE3 of its bytes, in hexadecimal.
    #[schemars(length(min = 64, max = 64), regex(pattern = "^[0-9a-f]{64}$"))]
    pub id: String,
    /// Its size.
    #[schemars(range(min = 1, max = 1_125_899_906_842_624_u64))]
    pub bytes: u64,
}

/// How a profile was measured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Measurement {
    /// When, in RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub at: Option<String>,
    /// Where.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub machine: Option<String>,
    /// CPUs of the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u32>,
    /// Memory of the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// The command of the instances.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), inner(length(max = 4096)))]
    pub command: Option<Vec<String>>,
    /// Requests that were measured, all configurations together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
}

impl MeasuredConfiguration {
    /// Its name: `c<cpuMillis>-b<batch>-p<concurrency>`.
    pub fn name(&self) -> String {
        format!("c{}-b{}-p{}", self.cpu_millis, self.batch, self.concurrency)
    }
}
