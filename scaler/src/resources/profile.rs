//! The custom resource `ModelProfile`.

#![allow(
    clippy::duplicated_attributes,
    reason = "columns of the same type, in one attribute"
)]

use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tetris_scaler_core::{GpuNeeds, GpuType, WHOLE_GPU_PERMILLE};

/// Maximum length of a GPU type's slug in the name of a configuration: `c10000000-b4096-p4096-` and
/// this are 63.
const MAX_SLUG: usize = 41;

/// Measurements of a model: its configurations and its tensors.
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
    doc = "Measurements of a model: its configurations and its tensors. Written by tetris-scaler profile.",
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
    /// Name of the model in the inference protocol.
    #[schemars(length(min = 1, max = 253))]
    pub model: String,
    /// Measured configurations; no two have the same cpuMillis, batch, concurrency and gpuType.
    #[schemars(length(min = 1, max = 512))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["cpuMillis".into(), "batch".into(), "concurrency".into(), "gpuType".into()]))]
    pub configurations: Vec<MeasuredConfiguration>,
    /// Loads of the model's tensors from host memory to GPUs, by type of GPU.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub gpus: Vec<MeasuredGpuLoad>,
    /// Tensors of the model in the store; the largest 8192 if there are more.
    #[serde(default)]
    #[schemars(length(max = 8192))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub objects: Vec<TensorObject>,
    /// Size of the tensors that are not listed, in bytes. The scaler never counts them as resident
    /// on a node.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1_125_899_906_842_624_u64))]
    pub unlisted_bytes: u64,
    /// Manifests of the model's files in the store.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1024), inner(length(min = 1, max = 128)))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub manifests: Vec<String>,
    /// Circumstances of the measurement, for information only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<Measurement>,
}

/// Measurement of one configuration of CPU, batch size, concurrency and type of GPU.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[x_kube(validation = Rule::new("has(self.gpu) == (has(self.gpuType) && self.gpuType.size() > 0)").message("a configuration has gpuType and gpu, or neither"))]
pub struct MeasuredConfiguration {
    /// CPU of an instance, in millicores.
    #[schemars(range(min = 1, max = 10_000_000))]
    pub cpu_millis: u64,
    /// Maximum number of requests in a batch.
    #[schemars(range(min = 1, max = 4096))]
    pub batch: u32,
    /// Number of concurrent inference threads.
    #[schemars(range(min = 1, max = 4096))]
    pub concurrency: u32,
    /// Private memory of an instance, in bytes, without the tensors it shares through the store.
    #[schemars(range(min = 1, max = 1_125_899_906_842_624_u64))]
    pub own_bytes: u64,
    /// Latency percentiles of one batch, in microseconds.
    pub latency_micros: LatencyMicros,
    /// Measured requests per second of an instance with one batch per thread in flight, in
    /// thousandths. Without it the scaler computes batch * concurrency / latency, which is less.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000_000_u64))]
    pub rate_millis: Option<u64>,
    /// Type of the GPU that the instance used: the product's name as the driver reports it, such as
    /// NVIDIA A100-SXM4-80GB. Empty for an instance without a GPU.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    // A key of the list needs a default in the schema.
    #[schemars(length(max = 63), regex(pattern = "^[ -~]*$"), extend("default" = ""))]
    pub gpu_type: String,
    /// Measurements on that GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<MeasuredGpu>,
}

/// Measurements of an instance on a GPU.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MeasuredGpu {
    /// Private device memory of an instance, in bytes: its context, activations and caches, without
    /// the tensors it shares through the node's GPU mirror.
    #[schemars(range(min = 0, max = 1_125_899_906_842_624_u64))]
    pub own_bytes: u64,
    /// Time for which one batch occupies the GPU, in microseconds. From it and the rate follows the
    /// part of the GPU's time that an instance takes. Without it an instance takes the whole GPU's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 3_600_000_000_u64))]
    pub inference_micros: Option<u64>,
}

/// Measurement of a load of the model's tensors from host memory to an empty GPU.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MeasuredGpuLoad {
    /// Type of the GPU: the product's name as the driver reports it.
    #[serde(rename = "type")]
    #[schemars(length(min = 1, max = 63), regex(pattern = "^[ -~]+$"))]
    pub kind: String,
    /// Bytes that the load copied.
    #[schemars(range(min = 1, max = 1_125_899_906_842_624_u64))]
    pub bytes: u64,
    /// Time of the load, in microseconds.
    #[schemars(range(min = 1, max = 3_600_000_000_u64))]
    pub micros: u64,
}

/// Latency percentiles of one batch, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[x_kube(validation = Rule::new("self.p50 <= self.p90 && self.p90 <= self.p95 && self.p95 <= self.p99").message("p50, p90, p95 and p99 must not descend"))]
pub struct LatencyMicros {
    /// Median.
    #[schemars(range(min = 1, max = 3_600_000_000_u64))]
    pub p50: u64,
    /// 90th percentile.
    #[schemars(range(min = 1, max = 3_600_000_000_u64))]
    pub p90: u64,
    /// 95th percentile.
    #[schemars(range(min = 1, max = 3_600_000_000_u64))]
    pub p95: u64,
    /// 99th percentile.
    #[schemars(range(min = 1, max = 3_600_000_000_u64))]
    pub p99: u64,
}

/// An object of the store.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TensorObject {
    /// BLAKE3 digest of the object's bytes, as 64 lowercase hexadecimal digits.
    #[schemars(length(min = 64, max = 64), regex(pattern = "^[0-9a-f]{64}$"))]
    pub id: String,
    /// Size of the object, in bytes.
    #[schemars(range(min = 1, max = 1_125_899_906_842_624_u64))]
    pub bytes: u64,
}

/// Circumstances of a profile's measurement.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Measurement {
    /// Time of the measurement, in RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub at: Option<String>,
    /// Name and architecture of the processor.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub machine: Option<String>,
    /// Number of CPUs of the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u32>,
    /// Memory of the machine, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Command line of the instances.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64), inner(length(max = 4096)))]
    pub command: Option<Vec<String>>,
    /// Number of measured requests, of all configurations together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
    /// Longest time for which the instances waited for a batch to fill, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch_wait_millis: Option<u64>,
}

impl MeasuredConfiguration {
    /// Name of the configuration: `c<cpuMillis>-b<batch>-p<concurrency>`, with a GPU followed by
    /// `-<slug of its type>`. The name is a label's value, so a long slug is cut.
    pub fn name(&self) -> String {
        let name = format!("c{}-b{}-p{}", self.cpu_millis, self.batch, self.concurrency);
        let Ok(kind) = self.gpu_type.parse::<GpuType>() else {
            return name;
        };
        let slug: String = kind.slug().chars().take(MAX_SLUG).collect();
        format!("{name}-{}", slug.trim_end_matches('-'))
    }

    /// Returns the needs of an instance on its GPU; `None` without one.
    ///
    /// The part of the GPU's time is the number of batches per second, at the measured rate, times
    /// the time of one batch there.
    pub(super) fn gpu_needs(&self) -> Option<GpuNeeds> {
        let gpu = self.gpu?;
        let kind = self.gpu_type.parse().ok()?;
        let share_permille = match gpu.inference_micros {
            None => WHOLE_GPU_PERMILLE,
            Some(micros) => self.share_permille(micros),
        };
        Some(GpuNeeds {
            kind,
            own_bytes: gpu.own_bytes,
            share_permille,
        })
    }

    fn share_permille(&self, inference_micros: u64) -> u32 {
        let (batch, threads) = (u128::from(self.batch.max(1)), u128::from(self.concurrency));
        // Batches in a million seconds; without a measured rate, one per thread and latency.
        let batches = match self.rate_millis {
            Some(rate) => u128::from(rate) * 1_000 / batch,
            None => threads * 1_000_000_000_000 / u128::from(self.latency_micros.p50.max(1)),
        };
        // A thousandth of these seconds are 10^9 microseconds.
        let permille = (batches * u128::from(inference_micros)).div_ceil(1_000_000_000);
        let permille = u32::try_from(permille).unwrap_or(u32::MAX);
        permille.clamp(1, WHOLE_GPU_PERMILLE)
    }
}
