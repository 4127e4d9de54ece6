//! The custom resource `ModelProfile`, as the profiler writes it.

use serde::{Deserialize, Serialize};
use tetris_scaler_core::GpuType;

use crate::gpu::MeasurementOnGpu;
use crate::latency::LatencyMicros;
use crate::setting::Setting;

/// Group and version of the resource.
pub const API_VERSION: &str = "tetris.dev/v1alpha1";
/// Kind of the resource.
pub const KIND: &str = "ModelProfile";
/// Maximum number of objects that a profile lists.
pub const MAX_LISTED_OBJECTS: usize = 8_192;

/// A manifest for `kubectl apply`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ModelProfileManifest {
    /// [`API_VERSION`].
    pub api_version: String,
    /// [`KIND`].
    pub kind: String,
    /// Name of the resource.
    pub metadata: Metadata,
    /// Measurements.
    pub spec: ModelProfileSpec,
}

/// Metadata of the resource: its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metadata {
    /// Name of the resource, a DNS-1123 subdomain.
    pub name: String,
}

/// Profile of a model: latency, memory and objects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ModelProfileSpec {
    /// Name of the model in the inference protocol.
    pub model: String,
    /// One entry per measured configuration.
    pub configurations: Vec<ProfiledConfiguration>,
    /// Loads to GPUs, by type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<ProfiledGpuLoad>,
    /// The model's objects in the tensor store, the largest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<ProfiledObject>,
    /// Size of the objects that are not listed, in bytes.
    #[serde(default)]
    pub unlisted_bytes: u64,
    /// Ids of the store's manifests with all objects mapped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub manifests: Vec<String>,
    /// Circumstances of the measurement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<Measured>,
}

/// A configuration with its measurement: `<c, m, b, p, l>` without the shared part of m.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProfiledConfiguration {
    /// CPU, batch size and concurrency.
    #[serde(flatten)]
    pub setting: Setting,
    /// Private memory of an instance, in bytes.
    pub own_bytes: u64,
    /// Latency percentiles with one batch per thread in flight, in microseconds.
    pub latency_micros: LatencyMicros,
    /// Answers per second meanwhile, in thousandths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_millis: Option<u64>,
    /// Type of the GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_type: Option<GpuType>,
    /// Measurements on the GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<ProfiledGpu>,
}

/// Measurements of an instance on a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProfiledGpu {
    /// Private device memory of an instance, in bytes.
    pub own_bytes: u64,
    /// Mean time of a batch on the GPU, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inference_micros: Option<u64>,
}

impl From<&MeasurementOnGpu> for ProfiledGpu {
    fn from(on: &MeasurementOnGpu) -> Self {
        Self {
            own_bytes: on.gpu.own_bytes,
            inference_micros: on.inference_micros,
        }
    }
}

/// Load of the model's tensors from host memory to an empty GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfiledGpuLoad {
    /// Type of the GPU.
    #[serde(rename = "type")]
    pub kind: GpuType,
    /// Bytes of the load.
    pub bytes: u64,
    /// Time of the load, in microseconds.
    pub micros: u64,
}

/// An object of the tensor store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfiledObject {
    /// BLAKE3-256 digest of its bytes, as 64 hexadecimal digits.
    pub id: String,
    /// Size of the object, in bytes.
    pub bytes: u64,
}

/// Circumstances of a profile's measurement, for information only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Measured {
    /// Time at which the last configuration finished, in RFC 3339.
    pub at: String,
    /// Name and architecture of the processor.
    pub machine: String,
    /// Number of CPUs.
    pub cpus: u64,
    /// Memory, in bytes.
    pub memory_bytes: u64,
    /// Command line of an instance, with its placeholders.
    pub command: Vec<String>,
    /// Number of measured requests, of all configurations together.
    pub requests: u64,
    /// Longest time for which the instances waited for a batch to fill, in milliseconds; `None` in older profiles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch_wait_millis: Option<u64>,
}

/// Returns true if `name` is a DNS-1123 subdomain, as Kubernetes requires of names.
pub fn is_resource_name(name: &str) -> bool {
    let label = |label: &str| {
        let edge =
            |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
        let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        edge(label.chars().next()) && edge(label.chars().last()) && label.chars().all(inner)
    };
    name.len() <= 253 && name.split('.').all(label)
}

/// Derives a resource name from a model's name: lowercase, with `-` for other characters; `None` if
/// nothing is left.
pub fn resource_name(model: &str) -> Option<String> {
    let keep = |c: char| {
        if c.is_ascii_alphanumeric() {
            c.to_ascii_lowercase()
        } else {
            '-'
        }
    };
    let name: String = model.chars().take(200).map(keep).collect();
    let name = name.trim_matches('-');
    is_resource_name(name).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LITERAL: &str = r#"{
      "apiVersion": "tetris.dev/v1alpha1", "kind": "ModelProfile", "metadata": {"name": "minilm"},
      "spec": {
        "model": "all-MiniLM-L6-v2",
        "configurations": [{"cpuMillis": 2000, "batch": 4, "concurrency": 2, "ownBytes": 104857600,
          "latencyMicros": {"p50": 1, "p90": 2, "p95": 3, "p99": 4}, "rateMillis": 27500, "gpuType": "Tesla T4", "gpu": {"ownBytes": 5, "inferenceMicros": 6}}],
        "gpus": [{"type": "Tesla T4", "bytes": 12, "micros": 3}],
        "objects": [{"id": "00ff", "bytes": 12}],
        "unlistedBytes": 7,
        "manifests": ["aa"],
        "measured": {"at": "2026-01-01T00:00:00Z", "machine": "m", "cpus": 2, "memoryBytes": 9, "command": ["serve", "{port}"], "requests": 50,
          "batchWaitMillis": 100}
      }}"#;

    #[test]
    fn field_names_are_those_of_the_resource() {
        let literal: serde_json::Value = serde_json::from_str(LITERAL).unwrap();
        let manifest: ModelProfileManifest = serde_json::from_value(literal.clone()).unwrap();
        assert_eq!(
            manifest.spec.configurations[0].setting.name(),
            "c2000-b4-p2"
        );
        assert_eq!(serde_json::to_value(&manifest).unwrap(), literal);
        let yaml = serde_saphyr::to_string(&manifest).unwrap();
        assert_eq!(
            serde_saphyr::from_str::<serde_json::Value>(&yaml).unwrap(),
            literal
        );
        assert!(
            yaml.contains("  - cpuMillis: 2000") || yaml.contains("- cpuMillis: 2000"),
            "{yaml}"
        );
    }

    #[test]
    fn names_of_resources_are_checked_and_made() {
        for good in ["a", "minilm-l6.v2", "0"] {
            assert!(is_resource_name(good), "{good}");
        }
        for bad in ["", "A", "-a", "a-", "a..b", "a_b", &"a".repeat(254)] {
            assert!(!is_resource_name(bad), "{bad}");
        }
        assert_eq!(
            resource_name("all-MiniLM-L6-v2").unwrap(),
            "all-minilm-l6-v2"
        );
        assert_eq!(resource_name("org/Model_1.5").unwrap(), "org-model-1-5");
        assert_eq!(resource_name("///"), None);
    }
}
