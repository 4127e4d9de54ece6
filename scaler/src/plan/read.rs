//! Documents of files, directories and standard input.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::Deserialize as _;
use serde_json::Value;

use super::error::PlanError;

/// Maximum size of a file, in bytes. Inventories of 10,000 nodes come in many files, or in a list.
const MAX_FILE_BYTES: u64 = 1 << 30;
/// Maximum number of YAML nodes in a file, more than kubectl prints for a few thousand objects.
/// JSON has no such limit.
const MAX_YAML_NODES: usize = 20_000_000;

/// A document and its source.
#[derive(Debug)]
pub(super) struct Document {
    /// Source of the document, for messages.
    pub(super) at: String,
    pub(super) value: Value,
}

/// Reads all documents of `paths` and splits lists; `-` is standard input.
pub(super) fn read_all(paths: &[PathBuf]) -> Result<Vec<Document>, PlanError> {
    let mut documents = Vec::new();
    for path in paths {
        if path.as_os_str() == "-" {
            read(Path::new("standard input"), io::stdin(), &mut documents)?;
            continue;
        }
        for file in files(path)? {
            let opened = File::open(&file).map_err(io_error(&file))?;
            read(&file, opened, &mut documents)?;
        }
    }
    Ok(documents)
}

/// Returns the path, or the sorted files of the directory.
fn files(path: &Path) -> Result<Vec<PathBuf>, PlanError> {
    if !fs::metadata(path).map_err(io_error(path))?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut paths = Vec::new();
    for entry in fs::read_dir(path).map_err(io_error(path))? {
        let file = entry.map_err(io_error(path))?.path();
        let extension = file.extension().and_then(|extension| extension.to_str());
        if matches!(extension, Some("yaml" | "yml" | "json")) {
            paths.push(file);
        }
    }
    if paths.is_empty() {
        let path = path.to_owned();
        return Err(PlanError::EmptyDirectory { path });
    }
    paths.sort();
    Ok(paths)
}

fn read(path: &Path, from: impl Read, into: &mut Vec<Document>) -> Result<(), PlanError> {
    let mut text = String::new();
    let mut limited = from.take(MAX_FILE_BYTES.saturating_add(1));
    limited.read_to_string(&mut text).map_err(io_error(path))?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(PlanError::TooLong {
            path: path.to_owned(),
            most: MAX_FILE_BYTES,
        });
    }
    let values = parse(&text).map_err(|error| PlanError::Syntax {
        path: path.to_owned(),
        problem: error.to_string(),
    })?;
    let several = values.len() > 1;
    for (index, value) in values.into_iter().enumerate() {
        let mut at = path.display().to_string();
        if several {
            at = format!("{at}, document {}", index.saturating_add(1));
        }
        take_apart(Document { at, value }, into);
    }
    Ok(())
}

fn parse(text: &str) -> Result<Vec<Value>, serde_saphyr::Error> {
    if text.trim_start().starts_with(['{', '[']) {
        let documents = serde_json::Deserializer::from_str(text).into_iter();
        let json: Result<Vec<Value>, _> = documents.collect();
        // A flow mapping of YAML begins the same way.
        if let Ok(values) = json {
            return Ok(values);
        }
    }
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_nodes: MAX_YAML_NODES,
            max_events: 2 * MAX_YAML_NODES,
            max_documents: 100_000,
            max_total_scalar_bytes: MAX_FILE_BYTES as usize,
        },
    };
    let values: Vec<Option<Value>> = serde_saphyr::from_multiple_with_options(text, options)?;
    Ok(values.into_iter().flatten().collect())
}

/// Splits `kind: List`, `kind: NodeList` and so on, and JSON arrays, as kubectl, curl and jq print
/// them.
fn take_apart(document: Document, into: &mut Vec<Document>) {
    let Document { at, mut value } = document;
    let kind = value
        .get("kind")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let is_list = kind.ends_with("List");
    let kind_of_items = kind.strip_suffix("List").map(str::to_owned);
    let items = match &mut value {
        Value::Array(items) => std::mem::take(items),
        Value::Object(object) if is_list => match object.remove("items") {
            Some(Value::Array(items)) => items,
            _ => Vec::new(),
        },
        Value::Null => return,
        _ => {
            into.push(Document { at, value });
            return;
        }
    };
    for (index, mut value) in items.into_iter().enumerate() {
        // The API server omits the kind of items in typed lists.
        if let (Some(kind), Value::Object(object)) = (&kind_of_items, &mut value)
            && !kind.is_empty()
        {
            object
                .entry("kind")
                .or_insert_with(|| Value::String(kind.clone()));
        }
        let at = format!("{at}, item {}", index.saturating_add(1));
        take_apart(Document { at, value }, into);
    }
}

fn io_error(path: &Path) -> impl FnOnce(io::Error) -> PlanError {
    let path = path.to_owned();
    move |source| PlanError::Io { path, source }
}

/// Fields that every object of Kubernetes has.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct Header {
    pub(super) kind: String,
    pub(super) metadata: Metadata,
}

/// Name and namespace of an object.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct Metadata {
    pub(super) name: String,
    pub(super) namespace: Option<String>,
}

impl Document {
    /// Returns kind and name, as far as the document has them.
    pub(super) fn header(&self) -> Header {
        Header::deserialize(&self.value).unwrap_or_default()
    }
}
