//! The table of a folder's files: an object of the store (LAYOUT.md 3.8).

use serde::{Deserialize, Serialize};
use tetris_loader::hub;
use tetris_store_layout::{
    Access, DerivedKey, Digest, ManifestId, Mapping, ObjectId, Store, TensorId, TrustDomain,
};

use crate::error::{FolderError, TableError};

/// Most files of a folder. Repositories of models have tens, the largest some hundreds.
pub const MAX_FILES: usize = 10_000;
/// Most bytes of a table, a multiple of what that many files need.
const MAX_TABLE: u64 = 16 << 20;
/// Transform of the tables' records.
const TRANSFORM: &str = "folder";
/// Version of the tables, and of their records.
const VERSION: u32 = 1;

/// The files of a model, as they were at its source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FolderTable {
    /// The source, as `tetris pull` takes it.
    pub source: String,
    /// The source's name for this state of all files, e.g. a commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// In the order of their paths.
    pub files: Vec<TableFile>,
}

/// A file of a folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableFile {
    /// Path below the folder, with `/` between its parts.
    pub path: String,
    /// Length in bytes.
    pub size: u64,
    /// Time of its last change at its source, in seconds since the epoch; 0 if it is not known.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub modified: u64,
    /// Its manifest; `None` for a file without objects.
    #[serde(default, with = "hex", skip_serializing_if = "Option::is_none")]
    pub manifest: Option<ManifestId>,
    /// Digest of its address and version at the source (LAYOUT.md 3.3); `None` where the source names no version.
    #[serde(default, with = "hex", skip_serializing_if = "Option::is_none")]
    pub version: Option<Digest>,
    /// The object that has the first bytes of a safetensors file, up to its tensors; `None` for other files.
    #[serde(default, with = "hex", skip_serializing_if = "Option::is_none")]
    pub header: Option<ObjectId>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes fields by reference"
)]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Ids in hexadecimal.
mod hex {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::de::{Deserialize, Deserializer, Error};
    use serde::ser::Serializer;

    #[expect(clippy::ref_option, reason = "serde passes fields by reference")]
    pub(super) fn serialize<T: Display, S: Serializer>(
        id: &Option<T>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match id {
            Some(id) => serializer.collect_str(id),
            None => serializer.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, T: FromStr<Err: Display>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<T>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        text.map(|text| text.parse().map_err(D::Error::custom))
            .transpose()
    }
}

impl FolderTable {
    /// The bytes of the table.
    ///
    /// # Errors
    /// When [`FolderTable::decode`] would refuse them.
    pub fn encode(&self) -> Result<Vec<u8>, TableError> {
        self.check()?;
        let bytes = serde_json::to_vec(self)?;
        require_short(&bytes)?;
        Ok(bytes)
    }

    /// The table in `bytes`.
    ///
    /// # Errors
    /// When they are none: not of this form, or with paths that lead elsewhere.
    pub fn decode(bytes: &[u8]) -> Result<Self, TableError> {
        require_short(bytes)?;
        let table: Self = serde_json::from_slice(bytes)?;
        table.check()?;
        Ok(table)
    }

    fn check(&self) -> Result<(), TableError> {
        if self.files.len() > MAX_FILES {
            return Err(TableError::TooManyFiles {
                limit: MAX_FILES,
                found: self.files.len(),
            });
        }
        let refused = |path: &str, problem| {
            Err(TableError::Path {
                path: path.escape_default().to_string(),
                problem,
            })
        };
        let mut before = None;
        for file in &self.files {
            let path = file.path.as_str();
            if !hub::is_plain_path(path) {
                return refused(path, "it leads out of the folder, or is no plain path");
            }
            if before.is_some_and(|before| before >= path) {
                return refused(path, "the paths are not in order, or it is there twice");
            }
            before = Some(path);
            if file.size > 0 && file.manifest.is_none() && file.header.is_none() {
                return refused(path, "nothing in the store has its bytes");
            }
        }
        Ok(())
    }

    /// The key that derives to the table of `source_name`. A name as short as this is always taken.
    pub fn key(source_name: &str) -> Option<DerivedKey> {
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"tetris folder\0");
        hasher.update(source_name.as_bytes());
        let source = TensorId(Digest(*hasher.finalize().as_bytes()));
        DerivedKey::new(source, TRANSFORM, VERSION).ok()
    }

    /// Returns true for the key of a table, of whatever source.
    pub fn is_key(key: &DerivedKey) -> bool {
        key.transform() == TRANSFORM && key.version() == VERSION
    }

    /// The table of `source_name`, by the word of the first of these domains that has one.
    ///
    /// # Errors
    /// When it cannot be mapped, or is not valid.
    pub fn find(
        source_name: &str,
        domains: &[TrustDomain],
        store: &Store,
    ) -> Result<Option<Self>, FolderError> {
        let mapped = Self::find_mapped(source_name, domains, store)?;
        Ok(mapped.map(|(table, _)| table))
    }

    /// The same with its object, which stays while it is mapped.
    pub(crate) fn find_mapped(
        source_name: &str,
        domains: &[TrustDomain],
        store: &Store,
    ) -> Result<Option<(Self, Mapping)>, FolderError> {
        let key = Self::key(source_name);
        for (key, domain) in key.iter().cycle().zip(domains) {
            let key = key.clone().in_domain(*domain);
            if let Some(published) = store.derived(&key, Access::ReadOnly)? {
                let mapping = published.mapping;
                let table = Self::decode(&mapping).map_err(|problem| FolderError::Table {
                    source_name: source_name.to_owned(),
                    problem,
                });
                return Ok(Some((table?, mapping)));
            }
        }
        Ok(None)
    }

    /// The file at `path`.
    pub fn file(&self, path: &str) -> Option<&TableFile> {
        let index = self
            .files
            .binary_search_by(|file| file.path.as_str().cmp(path));
        self.files.get(index.ok()?)
    }
}

fn require_short(bytes: &[u8]) -> Result<(), TableError> {
    let len = bytes.len() as u64;
    if len > MAX_TABLE {
        return Err(TableError::TooLong {
            limit: MAX_TABLE,
            found: len,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn table() -> FolderTable {
        let file = |path: &str, size, manifest: Option<&[u8]>, header: Option<&[u8]>| TableFile {
            path: path.to_owned(),
            size,
            modified: 7,
            manifest: manifest.map(ManifestId::of),
            version: Some(Digest::of(path.as_bytes())),
            header: header.map(ObjectId::of),
        };
        FolderTable {
            source: "s3://models/x".to_owned(),
            revision: Some("main".to_owned()),
            files: vec![
                file("a/b.safetensors", 20, Some(b"1"), Some(b"{ }")),
                file("config.json", 3, Some(b"2"), None),
                file("empty", 0, None, None),
                file("no-tensors.safetensors", 2, None, Some(b"{}")),
            ],
        }
    }

    #[test]
    fn a_table_is_read_as_it_was_written() {
        let bytes = table().encode().unwrap();
        assert_eq!(FolderTable::decode(&bytes).unwrap(), table());
        assert_eq!(table().file("config.json").unwrap().size, 3);
        assert_eq!(table().file("a"), None);
    }

    #[test]
    fn tables_that_no_folder_can_have_are_refused() {
        let changed = |change: fn(&mut FolderTable)| {
            let mut table = table();
            change(&mut table);
            table.encode().unwrap_err().to_string()
        };
        for (error, expected) in [
            (
                changed(|table| table.files[0].path = "../x".to_owned()),
                "leads out of the folder",
            ),
            (
                changed(|table| table.files[0].path = "/x".to_owned()),
                "leads out of the folder",
            ),
            (
                changed(|table| table.files[1].path = "zz".to_owned()),
                "not in order",
            ),
            (
                changed(|table| table.files[1].path = "a/b.safetensors".to_owned()),
                "there twice",
            ),
            (
                changed(|table| table.files[1].manifest = None),
                "has its bytes",
            ),
            (
                changed(|table| {
                    let file = table.files[2].clone();
                    table.files = vec![file; MAX_FILES + 1];
                }),
                "at most 10000 files, found 10001",
            ),
        ] {
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn bytes_that_are_no_table_are_refused() {
        let bytes = table().encode().unwrap();
        for len in 0..bytes.len() {
            assert!(FolderTable::decode(&bytes[..len]).is_err(), "{len}");
        }
        let long = vec![b' '; MAX_TABLE as usize + 1];
        let error = FolderTable::decode(&long).unwrap_err().to_string();
        assert_eq!(error, "expected at most 16777216 bytes, found 16777217");
        let deep = "[".repeat(1 << 20);
        assert!(FolderTable::decode(deep.as_bytes()).is_err());
        let id = r#"{"source":"s","files":[{"path":"a","size":1,"manifest":"0g"}]}"#;
        assert!(FolderTable::decode(id.as_bytes()).is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_end_the_reader(at in 0..500usize, with in any::<[u8; 4]>()) {
            let mut bytes = table().encode().unwrap();
            for (offset, byte) in with.into_iter().enumerate() {
                let len = bytes.len();
                bytes[(at + offset) % len] = byte;
            }
            if let Ok(table) = FolderTable::decode(&bytes) {
                prop_assert_eq!(FolderTable::decode(&table.encode().unwrap()).unwrap(), table);
            }
        }
    }
}
