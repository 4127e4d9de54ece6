//! Template of an engine.

use std::collections::BTreeSet;
use std::fmt;

use k8s_openapi::api::core::v1::PodTemplate as StoredTemplate;
use kube::ResourceExt as _;
use serde_json::{Map, Value, json};

use super::error::EngineProblem;
use crate::labels;
use crate::operator::json_paths::{list, object};
use crate::resources::{CheckedTemplate, EngineSpec, ModelDescription, PodTemplate};

/// Folder of models in containers.
const MODELS: &str = "/models";

/// An engine: a PodTemplate with its label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineTemplate {
    /// Name of the engine, by the label.
    pub name: String,
    /// Version of the PodTemplate.
    pub version: String,
    /// Tasks that it serves.
    tasks: BTreeSet<String>,
    /// Formats of weights that it loads.
    formats: BTreeSet<String>,
    /// Protocol of the server, if it is not the Open Inference Protocol.
    pub(super) other_protocol: Option<String>,
    /// The pod template.
    pods: Map<String, Value>,
}

impl fmt::Display for EngineTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let joined = |set: &BTreeSet<String>| set.iter().cloned().collect::<Vec<_>>().join(", ");
        let (tasks, formats) = (joined(&self.tasks), joined(&self.formats));
        write!(f, "{} ({tasks}; {formats})", self.name)
    }
}

impl EngineTemplate {
    /// Parses a PodTemplate; returns `None` for one without the label, or without a container.
    pub fn read(template: &StoredTemplate) -> Option<Self> {
        let name = template.labels().get(labels::ENGINE)?.clone();
        let pods = serde_json::to_value(template.template.as_ref()?).ok()?;
        pods.pointer("/spec/containers/0")?;
        let set = |annotation: &str| {
            let listed = template.annotations().get(annotation);
            let names = listed.into_iter().flat_map(|listed| listed.split(','));
            names.map(|name| name.trim().to_owned()).collect()
        };
        let (uid, version) = (template.uid(), template.resource_version());
        Some(Self {
            version: format!(
                "{}/{}",
                uid.unwrap_or_default(),
                version.unwrap_or_default()
            ),
            tasks: set(labels::ENGINE_TASKS),
            formats: set(labels::ENGINE_FORMATS),
            other_protocol: template
                .annotations()
                .get(labels::ENGINE_PROTOCOL)
                .filter(|protocol| *protocol != "inference")
                .cloned(),
            pods: pods.as_object().cloned()?,
            name,
        })
    }

    /// Returns true if it serves the model's task, from one of its formats.
    pub(super) fn serves(&self, model: &ModelDescription) -> bool {
        let task = model.task.as_ref();
        let has_task = task.is_some_and(|task| self.tasks.contains(task));
        has_task
            && model
                .formats
                .iter()
                .any(|format| self.formats.contains(format))
    }

    /// Returns the template of pods that serve the model `name`, and run as `account`.
    pub(super) fn for_model(
        &self,
        spec: &EngineSpec,
        name: &str,
        account: &str,
    ) -> Result<CheckedTemplate, EngineProblem> {
        let mut pods = Value::Object(self.pods.clone());
        object(&mut pods, &["spec"]).insert("serviceAccountName".to_owned(), account.into());
        if let Some(container) = pods.pointer_mut("/spec/containers/0") {
            if let Some(image) = &spec.image {
                object(container, &[]).insert("image".to_owned(), image.clone().into());
            }
            let arguments = list(container, &[], "args");
            arguments.extend(spec.args.iter().map(|argument| argument.clone().into()));
            // The container's arguments refer to these, as $(NAME).
            let variables = list(container, &[], "env");
            let path = format!("{MODELS}/{name}");
            variables.push(json!({"name": "TETRIS_MODEL_PATH", "value": path}));
            variables.push(json!({"name": "TETRIS_MODEL_NAME", "value": name}));
        }
        let pods = pods.as_object().cloned().unwrap_or_default();
        let checked = PodTemplate(pods).checked(None, false);
        checked.map_err(|problem| EngineProblem::Template {
            engine: self.name.clone(),
            problem,
        })
    }
}
