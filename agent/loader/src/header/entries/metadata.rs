//! The `__metadata__` entry: a map of strings, or null.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};

use super::super::{HeaderProblem, MAX_METADATA_ENTRIES};
use super::Notes;

pub(super) struct MetadataSeed<'n> {
    pub(super) notes: &'n mut Notes,
}

impl<'de> DeserializeSeed<'de> for MetadataSeed<'_> {
    type Value = BTreeMap<String, String>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de> Visitor<'de> for MetadataSeed<'_> {
    type Value = BTreeMap<String, String>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a map from strings to strings")
    }

    fn visit_none<E>(self) -> Result<Self::Value, E> {
        Ok(BTreeMap::new())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self::Value, A::Error> {
        let mut metadata = BTreeMap::new();
        while let Some((key, value)) = fields.next_entry::<String, String>()? {
            if metadata.len() >= MAX_METADATA_ENTRIES {
                return Err(self.notes.refuse(HeaderProblem::TooMuchMetadata {
                    limit: MAX_METADATA_ENTRIES as u64,
                }));
            }
            match metadata.entry(key) {
                Entry::Vacant(entry) => {
                    entry.insert(value);
                }
                Entry::Occupied(entry) => {
                    return Err(self.notes.refuse(HeaderProblem::DuplicateMetadataKey {
                        key: entry.key().clone(),
                    }));
                }
            }
        }
        Ok(metadata)
    }
}
