//! Identifiers of records.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use tetris_store_layout::{DerivedId, ManifestId, ParseDigestError};
use thiserror::Error;

/// Identifier of a record that lists objects (LAYOUT.md 5.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum RecordId {
    /// A model's manifest.
    Manifest(ManifestId),
    /// A tensor computed from another one: a model of one object.
    Derived(DerivedId),
}

/// The reason a text is not an identifier of a record.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ParseRecordIdError {
    /// The kind of record is missing.
    #[error("expected `manifest-` or `derived-` and 64 hexadecimal digits, found `{}`", .0.escape_debug())]
    Kind(String),
    /// The part after the kind is not an identifier.
    #[error(transparent)]
    Digest(#[from] ParseDigestError),
}

impl fmt::Display for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Manifest(id) => write!(f, "manifest-{id}"),
            Self::Derived(id) => write!(f, "derived-{id}"),
        }
    }
}

impl FromStr for RecordId {
    type Err = ParseRecordIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('-') {
            Some(("manifest", id)) => Ok(Self::Manifest(id.parse()?)),
            Some(("derived", id)) => Ok(Self::Derived(id.parse()?)),
            _ => Err(ParseRecordIdError::Kind(text.chars().take(80).collect())),
        }
    }
}

impl TryFrom<String> for RecordId {
    type Error = ParseRecordIdError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<RecordId> for String {
    fn from(id: RecordId) -> Self {
        id.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_survives_text() {
        for id in [
            RecordId::Manifest(ManifestId::of(b"a")),
            RecordId::Derived(DerivedId::of(b"a")),
        ] {
            assert_eq!(id.to_string().parse(), Ok(id));
        }
        for text in ["", "manifest", "object-00", "manifest-00"] {
            assert!(text.parse::<RecordId>().is_err(), "{text}");
        }
    }
}
