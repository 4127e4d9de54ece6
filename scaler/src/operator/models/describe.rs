//! Descriptions of models, from the pods that keep them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use futures::StreamExt as _;
use serde::Deserialize;
use tokio::time::Instant;

use super::server::READY_PORT;
use crate::pod_client::PodClient;
use crate::resources::ModelDescription;
use crate::state::Key;

/// Path at the pod.
const PATH: &str = "/description";
/// Longest description in bytes.
const MAX_BYTES: usize = 64 << 10;
/// Number of pods asked at once.
const AT_ONCE: usize = 8;
/// Time before a pod that did not answer is asked again.
const AGAIN: Duration = Duration::from_secs(30);
/// Longest text of a description.
const MAX_TEXT: usize = 128;

/// A description as the pod gives it.
#[derive(Debug, Deserialize)]
struct Answer {
    content: String,
    bytes: u64,
    formats: BTreeSet<String>,
    #[serde(default)]
    architecture: Option<String>,
}

/// A pod that can be asked for the description of its model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) model: Key,
    /// Hash of the model's source, by the pod's label.
    pub(super) source_hash: String,
    pub(super) address: IpAddr,
}

/// Descriptions so far, and pods that have not answered.
#[derive(Debug, Default)]
pub(super) struct Descriptions {
    known: BTreeMap<Key, ModelDescription>,
    failed: BTreeMap<IpAddr, Instant>,
}

impl Descriptions {
    /// Returns the description of a model of this source.
    pub(super) fn get(&self, model: &Key, source_hash: &str) -> Option<&ModelDescription> {
        let known = self.known.get(model);
        known.filter(|known| known.source_hash == source_hash)
    }

    /// Keeps descriptions of these models only.
    pub(super) fn retain(&mut self, is_there: impl Fn(&Key) -> bool) {
        self.known.retain(|key, _| is_there(key));
        self.failed.retain(|_, at| at.elapsed() < AGAIN);
    }

    /// Asks pods. Returns true if one has answered.
    pub(super) async fn ask(&mut self, client: &PodClient, pods: Vec<Asked>) -> bool {
        let is_due = |asked: &Asked| !self.failed.contains_key(&asked.address);
        let due: Vec<Asked> = pods.into_iter().filter(is_due).collect();
        let asked = due.into_iter().map(|asked| async move {
            let address = SocketAddr::new(asked.address, READY_PORT);
            let body = client.get(address, PATH, MAX_BYTES).await;
            let body = body.map_err(|problem| problem.to_string());
            let description = body.and_then(|body| read(&body, &asked.source_hash));
            (asked, description)
        });
        let answers: Vec<_> = futures::stream::iter(asked)
            .buffer_unordered(AT_ONCE)
            .collect()
            .await;
        let mut is_new = false;
        for (asked, description) in answers {
            match description {
                Ok(description) => {
                    is_new = true;
                    self.known.insert(asked.model, description);
                }
                Err(problem) => {
                    tracing::debug!(model = %asked.model, address = %asked.address, problem, "no description");
                    self.failed.insert(asked.address, Instant::now());
                }
            }
        }
        is_new
    }
}

fn read(body: &[u8], source_hash: &str) -> Result<ModelDescription, String> {
    let answer: Answer = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let texts = answer.formats.iter().chain(&answer.architecture);
    if answer.formats.len() > 8
        || texts
            .chain([&answer.content])
            .any(|text| text.len() > MAX_TEXT)
    {
        return Err(format!(
            "expected at most 8 formats, and texts of at most {MAX_TEXT} bytes"
        ));
    }
    let formats: Vec<String> = answer.formats.into_iter().collect();
    Ok(ModelDescription {
        source_hash: source_hash.to_owned(),
        content: answer.content,
        bytes: answer.bytes,
        task: task(answer.architecture.as_deref(), &formats).map(str::to_owned),
        architecture: answer.architecture,
        formats,
    })
}

/// Ends of the names of transformers' architectures, with their tasks, the most specific first.
const TASKS: [(&str, &str); 8] = [
    ("ForCausalLM", "generation"),
    ("LMHeadModel", "generation"),
    ("ForConditionalGeneration", "generation"),
    ("ForSequenceClassification", "classification"),
    ("ForMaskedLM", "embedding"),
    ("ForPreTraining", "embedding"),
    ("EncoderModel", "embedding"),
    ("Model", "embedding"),
];

/// Returns the task of an architecture. A GGUF file has no other use than generation here; an ONNX graph without a
/// configuration is served as the graph that it is.
fn task(architecture: Option<&str>, formats: &[String]) -> Option<&'static str> {
    let has = |name: &str| formats.iter().any(|format| format == name);
    if let Some(architecture) = architecture {
        let mut known = TASKS.into_iter();
        return known
            .find(|(end, _)| architecture.ends_with(end))
            .map(|(_, task)| task);
    }
    if has("gguf") {
        return Some("generation");
    }
    has("onnx").then_some("graph")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_follow_from_architectures_and_formats() {
        let formats =
            |names: &[&str]| -> Vec<String> { names.iter().map(ToString::to_string).collect() };
        let safetensors = formats(&["safetensors"]);
        for (architecture, expected) in [
            ("BertModel", Some("embedding")),
            ("XLMRobertaForMaskedLM", Some("embedding")),
            ("T5EncoderModel", Some("embedding")),
            ("BertForSequenceClassification", Some("classification")),
            ("LlamaForCausalLM", Some("generation")),
            ("GPT2LMHeadModel", Some("generation")),
            ("WhisperForAudioClassification", None),
        ] {
            assert_eq!(task(Some(architecture), &safetensors), expected);
        }
        assert_eq!(task(None, &formats(&["gguf"])), Some("generation"));
        assert_eq!(task(None, &formats(&["onnx"])), Some("graph"));
        assert_eq!(task(None, &safetensors), None);
    }

    #[test]
    fn answers_of_any_kind_are_read_or_refused() {
        let good = br#"{"content": "ab", "bytes": 7, "formats": ["safetensors"], "architecture": "BertModel"}"#;
        let description = read(good, "hash").unwrap();
        assert_eq!(description.task.as_deref(), Some("embedding"));
        assert_eq!(
            (description.bytes, description.source_hash.as_str()),
            (7, "hash")
        );
        let long = format!(
            r#"{{"content": "{}", "bytes": 7, "formats": []}}"#,
            "a".repeat(MAX_TEXT + 1)
        );
        let many: Vec<String> = (0..9).map(|number| format!("f{number}")).collect();
        let many = serde_json::json!({"content": "", "bytes": 1, "formats": many}).to_string();
        for bad in [long.as_str(), &many, "", "[]", r#"{"bytes": -1}"#] {
            assert!(read(bad.as_bytes(), "hash").is_err(), "{bad}");
        }
    }
}
