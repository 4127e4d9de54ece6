//! Pod template of a function.

use std::borrow::Cow;

use k8s_openapi::api::core::v1::PodTemplateSpec;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::problem::{FieldProblem, parse};

/// Variables that the operator sets for an instance with a GPU.
const GPU_VARIABLES: [&str; 2] = ["NVIDIA_VISIBLE_DEVICES", "TETRIS_GPU_OWN_BYTES"];
/// Prefix of the resources by which pods claim whole GPUs.
const GPU_CLAIM: &str = "nvidia.com/";
/// Variables that the operator sets and a template must not set.
const OWN_VARIABLES: [&str; 4] = [
    "TETRIS_BATCH",
    "TETRIS_BATCH_WAIT_MILLIS",
    "TETRIS_CONCURRENCY",
    "TETRIS_CPU_MILLIS",
];

/// A pod template as written, including fields that this program does not know.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PodTemplate(pub Map<String, Value>);

impl JsonSchema for PodTemplate {
    fn schema_name() -> Cow<'static, str> {
        "PodTemplate".into()
    }

    fn inline_schema() -> bool {
        true
    }

    /// Returns the schema of any object: the schema of pods is large and differs between versions
    /// of Kubernetes.
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
    }
}

/// A pod template with validated fields.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckedTemplate {
    /// The template as written.
    pub raw: Map<String, Value>,
    /// The fields that this program knows.
    pub pods: PodTemplateSpec,
    /// Index of the container that gets batch size and concurrency.
    pub container: usize,
}

impl PodTemplate {
    /// Checks the template and finds the container.
    pub(crate) fn checked(
        &self,
        container: Option<&str>,
        with_gpu: bool,
    ) -> Result<CheckedTemplate, FieldProblem> {
        let document = Value::Object(self.0.clone());
        let pods: PodTemplateSpec = parse(document).map_err(|found| {
            let inner = found.field.trim_start_matches('.');
            FieldProblem::new(format!("spec.template.{inner}"), found.problem)
        })?;
        let index = container_index(&pods, container)?;
        let checked = CheckedTemplate {
            raw: self.0.clone(),
            pods,
            container: index,
        };
        checked.check_restart()?;
        checked.check_environment(with_gpu)?;
        if with_gpu {
            checked.check_claims()?;
        }
        Ok(checked)
    }
}

impl CheckedTemplate {
    /// Checks the restart policy: a Deployment takes only `Always`.
    fn check_restart(&self) -> Result<(), FieldProblem> {
        let spec = self.pods.spec.as_ref();
        match spec.and_then(|spec| spec.restart_policy.as_deref()) {
            None | Some("Always") => Ok(()),
            Some(other) => {
                let problem = format!(
                    "found {other:?}, expected \"Always\": a Deployment takes nothing else; leave it out"
                );
                Err(FieldProblem::new(
                    "spec.template.spec.restartPolicy",
                    problem,
                ))
            }
        }
    }

    /// Checks that no container claims a GPU for itself: a claim takes a whole device from the others,
    /// while instances share it with the node's GPU mirror.
    fn check_claims(&self) -> Result<(), FieldProblem> {
        let containers = self.pods.spec.iter().flat_map(|spec| &spec.containers);
        for (index, container) in containers.enumerate() {
            let resources = container.resources.as_ref();
            let lists = resources.map(|all| [("limits", &all.limits), ("requests", &all.requests)]);
            for (list, found) in lists.into_iter().flatten() {
                let mut names = found.iter().flat_map(|found| found.keys());
                let Some(name) = names.find(|name| name.starts_with(GPU_CLAIM)) else {
                    continue;
                };
                let field = format!("spec.template.spec.containers[{index}].resources.{list}");
                let problem = format!(
                    "found {name:?}, expected no claim: instances share a GPU with its mirror, and a claim takes a whole one; remove it, as spec.gpu gives the container its device"
                );
                return Err(FieldProblem::new(field, problem));
            }
        }
        Ok(())
    }

    /// Checks that the template sets none of the operator's variables.
    fn check_environment(&self, with_gpu: bool) -> Result<(), FieldProblem> {
        let spec = self.pods.spec.as_ref();
        let container = spec.and_then(|spec| spec.containers.get(self.container));
        let variables = container.and_then(|pod| pod.env.as_ref());
        for (index, variable) in variables.into_iter().flatten().enumerate() {
            let name = variable.name.as_str();
            let of_gpu = with_gpu && GPU_VARIABLES.contains(&name);
            if of_gpu || OWN_VARIABLES.contains(&name) {
                let field = format!(
                    "spec.template.spec.containers[{}].env[{index}].name",
                    self.container
                );
                let problem = format!(
                    "{} is set by the operator for each configuration; remove it",
                    variable.name
                );
                return Err(FieldProblem::new(field, problem));
            }
        }
        Ok(())
    }
}

fn container_index(pods: &PodTemplateSpec, wanted: Option<&str>) -> Result<usize, FieldProblem> {
    let spec = pods.spec.as_ref();
    let containers = spec.map_or(&[][..], |spec| &spec.containers);
    if containers.is_empty() {
        let problem = "found none, expected at least one container";
        return Err(FieldProblem::new("spec.template.spec.containers", problem));
    }
    let Some(wanted) = wanted else {
        return Ok(0);
    };
    let index = containers
        .iter()
        .position(|container| container.name == wanted);
    index.ok_or_else(|| {
        let names: Vec<&str> = containers
            .iter()
            .map(|container| container.name.as_str())
            .collect();
        let problem = format!(
            "found {wanted:?}, expected one of the template's containers: {}",
            names.join(", ")
        );
        FieldProblem::new("spec.container", problem)
    })
}
