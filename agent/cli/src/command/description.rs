//! Description of a kept model, by which the scaler chooses its server.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Value;
use tetris_folder::ModelFolder;

/// Longest config.json to read.
const MAX_CONFIG: usize = 1 << 20;
/// Longest name of an architecture.
const MAX_NAME: usize = 128;
/// Formats of weights, by the ends of files' names.
const FORMATS: [&str; 3] = ["safetensors", "onnx", "gguf"];

/// Description of a model by its files.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Description {
    /// Digest of the files.
    content: String,
    /// Bytes of all files.
    bytes: u64,
    /// Formats of the weights.
    formats: BTreeSet<&'static str>,
    /// First architecture of config.json.
    #[serde(skip_serializing_if = "Option::is_none")]
    architecture: Option<String>,
}

impl Description {
    /// Describes the model of a folder.
    pub(super) fn of(folder: &ModelFolder) -> Self {
        let formats = folder.files().filter_map(|(path, _)| format_of(path));
        Self {
            content: folder.content().to_string(),
            bytes: folder.bytes(),
            formats: formats.collect(),
            architecture: folder
                .read("config.json", 0, MAX_CONFIG)
                .and_then(|config| architecture(&config)),
        }
    }
}

fn format_of(path: &str) -> Option<&'static str> {
    let (_, end) = path.rsplit_once('.')?;
    FORMATS.into_iter().find(|format| *format == end)
}

/// Returns the first architecture that a config.json names.
fn architecture(config: &[u8]) -> Option<String> {
    let config: Value = serde_json::from_slice(config).ok()?;
    let name = config.pointer("/architectures/0")?.as_str()?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    (name.len() <= MAX_NAME && !name.is_empty() && name.chars().all(is_name))
        .then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_and_architectures_are_read_from_names_and_from_the_configuration() {
        assert_eq!(format_of("onnx/model.onnx"), Some("onnx"));
        assert_eq!(
            format_of("model-00001-of-00002.safetensors"),
            Some("safetensors")
        );
        assert_eq!(format_of("README.md"), None);
        assert_eq!(format_of("safetensors"), None);
        let cases = [
            (
                r#"{"architectures": ["BertModel", "Other"]}"#,
                Some("BertModel"),
            ),
            (r#"{"architectures": []}"#, None),
            (r#"{"architectures": [7]}"#, None),
            (r#"{"architectures": ["a b"]}"#, None),
            (r#"{"architectures": [""]}"#, None),
            ("[", None),
            ("", None),
        ];
        for (config, expected) in cases {
            assert_eq!(
                architecture(config.as_bytes()).as_deref(),
                expected,
                "{config}"
            );
        }
        let long = format!(r#"{{"architectures": ["{}"]}}"#, "A".repeat(200));
        assert_eq!(architecture(long.as_bytes()), None);
    }
}
