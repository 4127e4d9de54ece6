//! Reading, hashing and publishing a file that is not known, and binding what identifies it.

use sha2::{Digest as _, Sha256};
use tetris_store_layout::{
    Digest, IdentityBy, IdentityKey, Manifest, ManifestId, ManifestKind, PublishError, Store,
};

use crate::backing::Backings;
use crate::header::Header;
use crate::hub;
use crate::load::Loader;
use crate::model::Part;
use crate::pipeline::Run;
use crate::plan::{FileShape, Plan};
use crate::report::{LoadReport, Recognized};
use crate::source::{Failure, Source};

impl Loader<'_> {
    /// Reads, hashes and publishes a file, and binds its identities.
    pub(crate) fn load_unknown(
        &self,
        source: &Source,
        kind: ManifestKind,
        store: &Store,
    ) -> Result<Part, Failure> {
        let read = FileRead::new(source, kind, self.options.thread_count())?;
        let run = self.pipeline(source, &read.plan, Some(store)).run()?;
        let bytes_read = run.bytes_read;
        let (manifest, header) = read.into_manifest(&run);
        let mut report = LoadReport {
            recognized: vec![Recognized::ByHashing],
            bytes_read,
            ..LoadReport::default()
        };
        let backings = self.complete(source, &manifest, run, &mut report)?;
        let bindable = source.require_unchanged()?;
        let id = manifest.id();
        // A file without tensor bytes has nothing to share, and its record would only take room.
        if store.is_writable() && !manifest.objects.is_empty() {
            let bound = store.publish_manifest(&manifest).and_then(|id| {
                if bindable && let Some(own) = source.stat_key(kind) {
                    store.bind(&own, id)?;
                }
                // The digest is that of what was read, so the file may be new.
                let loaded = Loaded {
                    manifest: &manifest,
                    header: &header,
                    backings: &backings,
                };
                self.bind_blob_name(source, store, &loaded, id)
            });
            if let Err(error) = bound {
                tracing::warn!(%error, "the model will be hashed again");
            }
        }
        Ok(Part::new(source.path(), id, manifest, backings, report))
    }

    /// Binds the name of a Hugging Face blob, if the content has the digest that the name claims.
    fn bind_blob_name(
        &self,
        source: &Source,
        store: &Store,
        loaded: &Loaded<'_>,
        id: ManifestId,
    ) -> Result<(), PublishError> {
        let Some(claimed) = hub::blob_claim(source.path()) else {
            return Ok(());
        };
        let manifest = loaded.manifest;
        if !self.options.bind_blob_name || loaded.backings.len() != manifest.objects.len() {
            return Ok(());
        }
        let digest = loaded.sha256();
        if digest != claimed {
            tracing::warn!(
                path = %source.path().display(),
                "the file's name claims a SHA-256 that its content does not have"
            );
            return Ok(());
        }
        let by = IdentityBy::Sha256 {
            digest,
            size: manifest.source_size,
        };
        let kind = manifest.kind;
        store.bind(&IdentityKey { kind, by }, id)
    }
}

/// A file whose header has been read.
pub(crate) struct FileRead {
    pub(crate) plan: Plan,
    shape: FileShape,
    header: Option<Header>,
    /// The header as it was read; empty for a file kept whole.
    raw: Vec<u8>,
}

impl FileRead {
    pub(crate) fn new(
        source: &Source,
        kind: ManifestKind,
        threads: usize,
    ) -> Result<Self, Failure> {
        Self::within(source, kind, threads, usize::MAX)
    }

    /// As [`FileRead::new`], but of a file of more tensors only the header is read, and there is no plan.
    pub(crate) fn within(
        source: &Source,
        kind: ManifestKind,
        threads: usize,
        max_tensors: usize,
    ) -> Result<Self, Failure> {
        let size = source.identity().size;
        let (header, raw) = match kind {
            ManifestKind::File => (None, Vec::new()),
            ManifestKind::Safetensors => {
                let (header, raw) = source.header()?;
                (Some(header), raw)
            }
        };
        let plan = match &header {
            Some(header) if header.tensors.len() > max_tensors => Plan::whole_file(0),
            Some(header) => Plan::of_header(header, source, threads)?,
            None => Plan::whole_file(size),
        };
        let shape = FileShape {
            kind,
            size,
            data_start: raw.len() as u64,
            header_digest: Digest::of(&raw),
        };
        Ok(Self {
            plan,
            shape,
            header,
            raw,
        })
    }

    /// How many tensors the file has.
    pub(crate) fn tensors(&self) -> usize {
        self.header
            .as_ref()
            .map_or(0, |header| header.tensors.len())
    }

    /// The manifest and the header's bytes.
    pub(crate) fn into_manifest(self, run: &Run) -> (Manifest, Vec<u8>) {
        let objects: Vec<_> = run.objects.iter().map(|hashed| hashed.object).collect();
        let manifest = self.plan.into_manifest(self.shape, self.header, &objects);
        (manifest, self.raw)
    }
}

/// A file that has been read.
struct Loaded<'l> {
    manifest: &'l Manifest,
    /// The header as it was read.
    header: &'l [u8],
    backings: &'l Backings,
}

impl Loaded<'_> {
    /// SHA-256 of the file, from what was read of it. Not from the file: whoever exchanged its header
    /// meanwhile would have names bound to a digest that are not those of its content.
    fn sha256(&self) -> [u8; 32] {
        let mut hasher = Sha256::new();
        hasher.update(self.header);
        if self.manifest.kind == ManifestKind::File {
            hasher.update(self.backings.object(0).unwrap_or_default());
        }
        for tensor in &self.manifest.tensors {
            let found = tensor
                .place
                .and_then(|place| self.backings.at(place, tensor.len));
            hasher.update(found.map_or(&[][..], |(bytes, _)| bytes));
        }
        hasher.finalize().into()
    }
}
