//! Keys of layouts.

use std::collections::{BTreeMap, BTreeSet};

use crate::derived::DerivedKey;
use crate::digest::{Digest, TensorId};
use crate::error::DecodeError;

/// Begin of the transform's name of every layout.
const PREFIX: &str = "layout ";

/// All that a layout is made of: source tensors, a transform with its version, and the conditions on which the result depends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayoutKey {
    transform: String,
    version: u32,
    sources: BTreeMap<String, TensorId>,
    conditions: BTreeMap<String, String>,
}

impl LayoutKey {
    /// A key of `transform`, e.g. `vllm oneDNN`. Raise `version` when its implementation gives other tensors.
    pub fn new(transform: impl Into<String>, version: u32) -> Self {
        Self {
            transform: transform.into(),
            version,
            sources: BTreeMap::new(),
            conditions: BTreeMap::new(),
        }
    }

    /// Adds a source tensor by the name that the transform knows it by: the same bytes under other names make another layout.
    #[must_use]
    pub fn with_source(mut self, name: impl Into<String>, id: TensorId) -> Self {
        self.sources.insert(name.into(), id);
        self
    }

    /// Adds a condition, e.g. a library's version, the processor's features, or the place in a parallel group.
    #[must_use]
    pub fn with_condition(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.conditions.insert(name.into(), value.into());
        self
    }

    /// The key of the derived record: its source is a digest of all sources, its transform has the conditions.
    ///
    /// # Errors
    /// When the names are longer than a record takes, or have control characters, or a condition's name has `=`.
    pub fn derived_key(&self) -> Result<DerivedKey, DecodeError> {
        let mut transform = format!("{PREFIX}{}", printable(&self.transform, "transform")?);
        for (name, value) in &self.conditions {
            if name.contains('=') {
                let found = name.escape_debug();
                return Err(DecodeError::field(
                    "name of a condition",
                    "without `=`",
                    found,
                ));
            }
            let (name, value) = (
                printable(name, "condition")?,
                printable(value, "condition")?,
            );
            transform.push_str("; ");
            transform.push_str(name);
            transform.push('=');
            transform.push_str(value);
        }
        DerivedKey::new(self.source(), transform, self.version)
    }

    /// The source tensors, each once.
    pub fn sources(&self) -> BTreeSet<TensorId> {
        self.sources.values().copied().collect()
    }

    /// Digest of the sources with their names.
    fn source(&self) -> TensorId {
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"tetris layout sources\0");
        for (name, id) in &self.sources {
            hasher.update(&(name.len() as u64).to_le_bytes());
            hasher.update(name.as_bytes());
            hasher.update(&id.0.0);
        }
        TensorId(Digest(*hasher.finalize().as_bytes()))
    }
}

impl DerivedKey {
    /// Returns true if this is the key of a layout.
    pub fn is_layout(&self) -> bool {
        self.transform().starts_with(PREFIX)
    }
}

/// Conditions are distinguished by `; `, and people read them.
fn printable<'a>(text: &'a str, field: &'static str) -> Result<&'a str, DecodeError> {
    if text.contains(char::is_control) || text.contains("; ") {
        let expected = "without control characters and `; `";
        return Err(DecodeError::field(field, expected, text.escape_debug()));
    }
    Ok(text)
}
