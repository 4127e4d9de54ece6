//! Manifests in the store.

use super::{MAX_MANIFEST_BYTES, Manifest};
use crate::digest::ManifestId;
use crate::error::{DecodeError, PublishError, StoreError};
use crate::folder::Folder;
use crate::store::Store;

impl Store {
    /// Publishes a manifest and returns its id. Its objects must have been published before
    /// (INV-6).
    pub fn publish_manifest(&self, manifest: &Manifest) -> Result<ManifestId, PublishError> {
        debug_assert_eq!(manifest.check(), Ok(()));
        let bytes = manifest.encode();
        let id = ManifestId::of(&bytes);
        let name = id.to_string();
        if !self.link_record(Folder::Manifests, &name, &bytes)? {
            self.touch_record(Folder::Manifests, &name);
        }
        Ok(id)
    }

    /// Reads the manifest `id` and checks that it is what its name promises.
    pub fn manifest(&self, id: ManifestId) -> Result<Option<Manifest>, StoreError> {
        let name = id.to_string();
        let Some(bytes) = self.read_record(Folder::Manifests, &name, MAX_MANIFEST_BYTES)? else {
            return Ok(None);
        };
        let found = ManifestId::of(&bytes);
        let checked = if found == id {
            Manifest::decode(&bytes)
        } else {
            Err(DecodeError::Checksum {
                field: "manifest",
                expected: name.clone(),
                found: found.to_string(),
            })
        };
        checked.map(Some).map_err(|source| StoreError::Record {
            path: self.path(Folder::Manifests, &name),
            source,
        })
    }

    /// Notes that the model of this manifest was loaded now.
    pub fn touch_manifest(&self, id: ManifestId) {
        self.touch_record(Folder::Manifests, &id.to_string());
    }
}
