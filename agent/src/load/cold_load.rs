//! Reading, hashing and publishing a file that is not known, and binding its identities.

use sha2::{Digest as _, Sha256};
use tetris_loader::{LoadFailure, PlannedFile, Recognized, hub};
use tetris_store_layout::{
    IdentityBy, IdentityKey, Manifest, ManifestId, ManifestKind, PublishError,
};

use super::read::HashedFile;
use super::{LoadContext, SharedLoad};
use crate::backing::Backings;
use crate::loaded_file::LoadedFile;
use crate::private_reason::PrivateReason;
use crate::report::LoadReport;

impl LoadContext<'_> {
    /// Reads, hashes and publishes a file, and binds its identities.
    pub(super) fn load_cold(&self, load: SharedLoad<'_>) -> Result<LoadedFile, LoadFailure> {
        let (source, kind, store) = (load.source, load.kind, load.store);
        let planned = PlannedFile::new(source, kind, self.options.thread_count())?;
        let jobs = &planned.plan.jobs;
        // A whole file that stays out of the store is not copied.
        let (run, private) = if store.is_writable() || kind == ManifestKind::File {
            (self.run_pipeline(source, jobs, Some(store), false)?, None)
        } else {
            let (run, private) = self.read_once(source, jobs, store)?;
            (run, Some(private))
        };
        let mut report = LoadReport {
            recognized: vec![Recognized::ByHashing],
            bytes_read: run.bytes_read,
            ..LoadReport::default()
        };
        let (manifest, header) = planned.into_manifest(&run.refs());
        let file = HashedFile {
            objects: run.objects,
            refused: run
                .refused
                .as_ref()
                .map(|error| PrivateReason::of_publish(error, store)),
            at_map_limit: run.at_map_limit,
            private,
        };
        let backings = self.complete(source, &manifest, file, &mut report)?;
        let bindable = source.require_unchanged()?;
        let id = manifest.id();
        // A file without tensor bytes has nothing to share, and its record would only take room.
        if store.is_writable() && !manifest.objects.is_empty() {
            let bound = store.publish_manifest(&manifest).and_then(|id| {
                if bindable && let Some(own) = source.stat_key(kind) {
                    store.bind(&own, id)?;
                }
                // The digest is of the read bytes, so the file may be new.
                let content = ReadContent {
                    manifest: &manifest,
                    header: &header,
                    backings: &backings,
                };
                self.bind_blob_name(load, &content, id)
            });
            if let Err(error) = bound {
                tracing::warn!(%error, "the model will be hashed again");
            }
        }
        Ok(LoadedFile::new(
            source.path(),
            id,
            manifest,
            backings,
            report,
        ))
    }

    /// Binds the name of a Hugging Face blob, if the content has the digest that the name claims.
    fn bind_blob_name(
        &self,
        load: SharedLoad<'_>,
        content: &ReadContent<'_>,
        id: ManifestId,
    ) -> Result<(), PublishError> {
        let Some(claimed) = hub::blob_claim(load.source.path()) else {
            return Ok(());
        };
        let manifest = content.manifest;
        if !self.options.bind_blob_name || content.backings.len() != manifest.objects.len() {
            return Ok(());
        }
        let digest = content.sha256();
        if digest != claimed {
            tracing::warn!(
                path = %load.source.path().display(),
                "the file's name claims a SHA-256 that its content does not have"
            );
            return Ok(());
        }
        let by = IdentityBy::Sha256 {
            digest,
            size: manifest.source_size,
        };
        let kind = manifest.kind;
        load.store.bind(&IdentityKey { kind, by }, id)
    }
}

/// The content of a file, as it was read.
struct ReadContent<'c> {
    manifest: &'c Manifest,
    /// The header as it was read.
    header: &'c [u8],
    backings: &'c Backings,
}

impl ReadContent<'_> {
    /// SHA-256 of the file, from the bytes that were read of it. Not from the file: if its header were
    /// exchanged meanwhile, names would be bound to a digest of other content.
    fn sha256(&self) -> [u8; 32] {
        let mut hasher = Sha256::new();
        hasher.update(self.header);
        if self.manifest.kind == ManifestKind::File {
            hasher.update(self.backings.object(0).unwrap_or_default());
        }
        for tensor in &self.manifest.tensors {
            let bytes_at = tensor
                .place
                .and_then(|place| self.backings.at(place, tensor.len));
            hasher.update(bytes_at.map_or(&[][..], |(bytes, _)| bytes));
        }
        hasher.finalize().into()
    }
}
