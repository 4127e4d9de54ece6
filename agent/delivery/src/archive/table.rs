//! The list of an archive's files, which the store keeps so that the archive is not read again (LAYOUT.md 3.8).

use serde::{Deserialize, Serialize};
use tetris_folder::MAX_FILES;
use tetris_store_layout::{Access, DerivedKey, Digest, ManifestId, ObjectId, TensorId};

use crate::destination::Destination;

/// Most bytes of a list, a multiple of what that many files need.
const MAX_TABLE: usize = 16 << 20;
/// Version of the lists, and of their records.
const VERSION: u32 = 1;

/// The files of an archive.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ArchiveTable {
    pub(super) files: Vec<ArchivedFile>,
    /// Paths of archives below this one that it removes, with all below them; the empty one is all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) removed: Vec<String>,
}

/// A file of an archive.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ArchivedFile {
    /// Path below the model.
    pub(super) path: String,
    /// Length in bytes.
    #[serde(default)]
    pub(super) size: u64,
    /// Path of the file whose content this one has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) link: Option<String>,
    /// Its manifest; `None` for a file left out, and for one without objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) manifest: Option<String>,
    /// The object with the first bytes of a safetensors file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) header: Option<String>,
}

impl ArchivedFile {
    /// A file, or the link to one, of which nothing was pulled.
    pub(super) fn new(path: String, size: u64, link: Option<String>) -> Self {
        Self {
            path,
            size,
            link,
            manifest: None,
            header: None,
        }
    }

    pub(super) fn manifest(&self) -> Option<ManifestId> {
        self.manifest.as_ref()?.parse().ok()
    }

    pub(super) fn header(&self) -> Option<ObjectId> {
        self.header.as_ref()?.parse().ok()
    }
}

impl ArchiveTable {
    /// The key that derives to the list of the archive with this SHA-256, read from this folder.
    fn key(archive: &[u8; 32], root: &str) -> Option<DerivedKey> {
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"tetris archive\0").update(archive);
        let archive = TensorId(Digest(*hasher.finalize().as_bytes()));
        DerivedKey::new(archive, format!("archive {root}"), VERSION).ok()
    }

    /// The list that an earlier pull has left.
    pub(super) fn find(
        archive: &[u8; 32],
        root: &str,
        destination: Destination<'_>,
    ) -> Option<Self> {
        let key = Self::key(archive, root)?;
        destination.domains().into_iter().find_map(|domain| {
            let key = key.clone().in_domain(domain);
            let listed = destination.store.derived(&key, Access::ReadOnly).ok()??;
            Self::decode(&listed.mapping)
        })
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let table: Self = (bytes.len() <= MAX_TABLE)
            .then(|| serde_json::from_slice(bytes).ok())
            .flatten()?;
        (table.files.len() <= MAX_FILES).then_some(table)
    }

    /// Keeps the list. A pull does not fail for want of it.
    pub(super) fn keep(
        &self,
        archive: &[u8; 32],
        root: &str,
        destination: Destination<'_>,
        address: &str,
    ) {
        let Some(key) = Self::key(archive, root) else {
            return;
        };
        let Ok(bytes) = serde_json::to_vec(self) else {
            return;
        };
        let published = destination.publish(&bytes, address);
        let kept = published.and_then(|listed| destination.record(key, listed.object, address));
        if let Err(error) = kept {
            tracing::warn!(address, %error, "the archive will be read again by the next pull");
        }
    }
}
