//! Server of a model, and how the operator measures it.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::problem::FieldProblem;
use crate::quantity::bytes;

/// Largest number of configurations that the operator measures for a function.
const MAX_GRID: usize = 128;
/// Largest number of CPUs of a measured instance.
const MAX_CPUS: u32 = 1_024;
/// Largest batch, and largest concurrency.
const MAX_PARALLEL: u32 = 4_096;

/// Server of a function's model, in the place of a template. Its pods are made from the PodTemplate
/// tetris-engine-NAME of the operator's namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EngineSpec {
    /// Name of the engine, such as instance or vllm. By default the installed one that serves the model's
    /// task and file format.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(min = 1, max = 40),
        regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    )]
    pub name: Option<String>,
    /// Image in the place of the engine's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub image: Option<String>,
    /// Arguments after the engine's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 4096)))]
    pub args: Vec<String>,
}

/// Measurement by the operator, for a function that names no profile: a Job starts the server in several configurations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[x_kube(validation = Rule::new("(has(self.cpus) ? self.cpus.size() : 3) * (has(self.batch) ? self.batch.size() : 4) * (has(self.concurrency) ? self.concurrency.size() : 2) <= 128").message("cpus, batch and concurrency make more than 128 configurations"))]
pub struct ProfilingSpec {
    /// Name of the model in the inference protocol. By default that of the Model, without one the function's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub model: Option<String>,
    /// Numbers of CPUs of an instance. By default 1, 2 and 4, as far as they are at most half of the largest node's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(range(min = 1, max = 1024)))]
    pub cpus: Vec<u32>,
    /// Maximum batch sizes. By default 1, 2, 4 and 8.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(range(min = 1, max = 4096)))]
    pub batch: Vec<u32>,
    /// Numbers of concurrent inference threads. By default 1 and 2.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(range(min = 1, max = 4096)))]
    pub concurrency: Vec<u32>,
    /// Time after which no further configuration is begun, in minutes. The Job ends 10 minutes later at the latest.
    #[serde(default = "minutes")]
    #[schemars(range(min = 1, max = 1440))]
    pub minutes: u32,
    /// Memory limit of the Job's pod, e.g. 8Gi. By default twice the template's memory request, at least 2Gi.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 16))]
    pub memory: Option<String>,
}

/// Default of `profiling.minutes`.
const fn minutes() -> u32 {
    10
}

impl Default for ProfilingSpec {
    fn default() -> Self {
        Self {
            model: None,
            cpus: Vec::new(),
            batch: Vec::new(),
            concurrency: Vec::new(),
            minutes: minutes(),
            memory: None,
        }
    }
}

/// A [`ProfilingSpec`] with validated fields. Empty lists stand for the defaults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedProfiling {
    /// Name of the model in the inference protocol.
    pub model: Option<String>,
    /// Numbers of CPUs.
    pub cpus: Vec<u32>,
    /// Batch sizes.
    pub batch: Vec<u32>,
    /// Numbers of threads.
    pub concurrency: Vec<u32>,
    /// Time after which no configuration is begun, in minutes.
    pub minutes: u32,
    /// Memory limit of the pod, in bytes.
    pub memory_bytes: Option<u64>,
}

impl ProfilingSpec {
    /// Checks every field.
    pub(super) fn checked(&self) -> Result<CheckedProfiling, FieldProblem> {
        let lists = [
            ("cpus", &self.cpus, MAX_CPUS),
            ("batch", &self.batch, MAX_PARALLEL),
            ("concurrency", &self.concurrency, MAX_PARALLEL),
        ];
        for (name, list, most) in lists {
            for (index, number) in list.iter().enumerate() {
                let field = format!("spec.profiling.{name}[{index}]");
                FieldProblem::check(field, u64::from(*number), 1, u64::from(most))?;
            }
        }
        let count =
            |list: &[u32], default: usize| if list.is_empty() { default } else { list.len() };
        let grid = count(&self.cpus, 3) * count(&self.batch, 4) * count(&self.concurrency, 2);
        if grid > MAX_GRID {
            let problem = format!("found {grid} configurations, expected at most {MAX_GRID}");
            return Err(FieldProblem::new("spec.profiling", problem));
        }
        let field = "spec.profiling.minutes";
        FieldProblem::check(field, u64::from(self.minutes), 1, 1_440)?;
        let memory_bytes = match &self.memory {
            None => None,
            Some(text) => Some(bytes(text).filter(|bytes| *bytes > 0).ok_or_else(|| {
                let problem = format!("found {text:?}, expected an amount of memory such as 8Gi");
                FieldProblem::new("spec.profiling.memory", problem)
            })?),
        };
        if let Some(model) = &self.model {
            FieldProblem::check_text("spec.profiling.model", model, 253)?;
        }
        Ok(CheckedProfiling {
            model: self.model.clone(),
            cpus: self.cpus.clone(),
            batch: self.batch.clone(),
            concurrency: self.concurrency.clone(),
            minutes: self.minutes,
            memory_bytes,
        })
    }
}
