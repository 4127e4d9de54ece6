//! Choice of an engine for a model.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::error::EngineProblem;
use super::served::ServedModel;
use super::template::EngineTemplate;
use crate::resources::EngineSpec;

/// Returns the named engine, or the first by name that serves the model's task and one of its formats.
pub(super) fn choose(
    spec: &EngineSpec,
    name: &str,
    model: Option<&ServedModel>,
    engines: &BTreeMap<String, Arc<EngineTemplate>>,
) -> Result<Arc<EngineTemplate>, EngineProblem> {
    if let Some(engine) = &spec.name {
        return engines
            .get(engine)
            .cloned()
            .ok_or_else(|| EngineProblem::NotInstalled {
                name: engine.clone(),
                installed: engines.keys().cloned().collect(),
            });
    }
    let model = model.ok_or_else(|| EngineProblem::NoModel(name.to_owned()))?;
    let description = model.description.as_ref();
    let description = description.ok_or_else(|| EngineProblem::Undescribed(name.to_owned()))?;
    let mut serving = engines.values().filter(|engine| engine.serves(description));
    serving
        .next()
        .cloned()
        .ok_or_else(|| EngineProblem::Unserved {
            model: description.to_string(),
            installed: engines.values().map(ToString::to_string).collect(),
        })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;
    use crate::resources::ModelDescription;

    fn engine(name: &str, tasks: &str, formats: &str) -> (String, Arc<EngineTemplate>) {
        let object = json!({
            "metadata": {
                "name": format!("tetris-engine-{name}"), "uid": "u", "resourceVersion": "1",
                "labels": {"tetris.dev/engine": name},
                "annotations": {"tetris.dev/engine-tasks": tasks, "tetris.dev/engine-formats": formats},
            },
            "template": {"spec": {"containers": [{
                "name": "server", "image": "server:1", "command": ["serve"], "args": ["$(TETRIS_MODEL_PATH)"],
                "resources": {"requests": {"cpu": "2", "memory": "1Gi"}},
            }]}},
        });
        let template = serde_json::from_value(object).unwrap();
        let engine = EngineTemplate::read(&template).unwrap();
        (name.to_owned(), Arc::new(engine))
    }

    fn model(task: Option<&str>, formats: &[&str]) -> ServedModel {
        ServedModel {
            account: "default".to_owned(),
            nodes: BTreeSet::new(),
            description: Some(ModelDescription {
                task: task.map(str::to_owned),
                formats: formats.iter().map(ToString::to_string).collect(),
                ..ModelDescription::default()
            }),
        }
    }

    #[test]
    fn an_engine_is_named_or_chosen_by_task_and_format() {
        let engines: BTreeMap<_, _> = [
            engine("instance", "embedding,classification", "safetensors"),
            engine("llama-cpp", "generation", "gguf"),
            engine("vllm", "generation", "safetensors"),
        ]
        .into();
        let auto = EngineSpec::default();
        let chosen = |spec: &EngineSpec, model: Option<&ServedModel>| {
            choose(spec, "m", model, &engines).map(|engine| engine.name.clone())
        };
        let cases = [
            (Some("embedding"), &["safetensors"][..], "instance"),
            (Some("generation"), &["safetensors"], "vllm"),
            (Some("generation"), &["gguf", "safetensors"], "llama-cpp"),
        ];
        for (task, formats, expected) in cases {
            assert_eq!(
                chosen(&auto, Some(&model(task, formats))).unwrap(),
                expected
            );
        }
        let unserved = chosen(&auto, Some(&model(Some("generation"), &["onnx"])));
        let unserved = unserved.unwrap_err();
        assert_eq!(unserved.reason(), "NoEngine");
        assert!(unserved.to_string().contains("generation"), "{unserved}");
        assert!(unserved.to_string().contains("vllm"), "{unserved}");
        // Of an unknown task no engine is chosen: it might answer with nonsense.
        let unknown = chosen(&auto, Some(&model(None, &["safetensors"])));
        assert_eq!(unknown.unwrap_err().reason(), "NoEngine");
        assert_eq!(chosen(&auto, None).unwrap_err().reason(), "ModelNotFound");
        let named = |name: &str| EngineSpec {
            name: Some(name.to_owned()),
            ..EngineSpec::default()
        };
        assert_eq!(chosen(&named("vllm"), None).unwrap(), "vllm");
        let absent = chosen(&named("triton"), None).unwrap_err();
        assert_eq!(absent.reason(), "EngineNotInstalled");
        assert!(absent.to_string().contains("instance, llama-cpp, vllm"));
    }
}
