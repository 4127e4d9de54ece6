//! Manifests that may be a file's, by its identities and by the sidecar beside it, and attaching the file by them: its objects are
//! mapped, and some of the file is compared with them.

use tetris_loader::{
    LoadFailure, MapLimit, Recognized, Source, compare, disown, hub, map_objects, sidecar,
};
use tetris_store_layout::{
    IdentityBy, IdentityKey, Manifest, ManifestId, ManifestKind, Mapping, ObjectRef, Store,
};

use super::{LoadContext, SharedLoad};

/// A file with a manifest that may be its own.
#[derive(Debug)]
pub(crate) struct KnownFile {
    pub(crate) id: ManifestId,
    pub(crate) manifest: Manifest,
    /// The way it was recognized.
    pub(crate) recognized: Recognized,
}

/// The manifests that the file's identities are bound to, the surest first. The next identity is
/// looked up only when the iterator is asked for it.
pub(super) fn by_identity(load: SharedLoad<'_>) -> impl Iterator<Item = KnownFile> {
    let SharedLoad {
        source,
        kind,
        store,
    } = load;
    bound(source, kind, store).filter_map(move |(recognized, id)| match store.manifest(id) {
        Ok(manifest) => Some(KnownFile {
            id,
            manifest: manifest?,
            recognized,
        }),
        Err(error) => {
            tracing::warn!(%error, "manifest ignored; the file is hashed again");
            None
        }
    })
}

/// The manifest in the sidecar beside the file, if it is valid for the file.
pub(super) fn by_sidecar(load: SharedLoad<'_>) -> Result<Option<KnownFile>, LoadFailure> {
    if load.kind != ManifestKind::Safetensors {
        return Ok(None);
    }
    Ok(sidecar::of(load.source)?.map(|manifest| KnownFile {
        id: manifest.id(),
        manifest,
        recognized: Recognized::BySidecar,
    }))
}

/// Ids of the manifests that the file's identities are bound to, the surest first.
pub fn bound<'s>(
    source: &'s Source,
    kind: ManifestKind,
    store: &'s Store,
) -> impl Iterator<Item = (Recognized, ManifestId)> + 's {
    [Recognized::ByStat, Recognized::ByBlobName]
        .into_iter()
        .filter_map(move |recognized| {
            let key = match recognized {
                Recognized::ByStat => source.stat_key(kind),
                _ => blob_key(source, kind),
            };
            match store.look_up(&key?) {
                Ok(found) => Some((recognized, found?)),
                Err(error) => {
                    tracing::warn!(%error, "identity ignored; the file is hashed again");
                    None
                }
            }
        })
}

/// The identity that the name of a Hugging Face blob claims.
pub(super) fn blob_key(source: &Source, kind: ManifestKind) -> Option<IdentityKey> {
    let digest = hub::blob_claim(source.path())?;
    let size = source.identity().size;
    let by = IdentityBy::Sha256 { digest, size };
    Some(IdentityKey { kind, by })
}

#[cfg(feature = "gpu")]
impl LoadContext<'_> {
    /// The manifest of a safetensors file that the store knows by one of its identities, not yet compared with the
    /// file ([`Self::agrees`]). `None` if a load must look closer.
    pub(crate) fn known(&self, source: &Source) -> Option<KnownFile> {
        let kind = ManifestKind::Safetensors;
        let store = self.store.filter(|_| !self.options.ignore_identity)?;
        if self.not_worth_sharing(source, kind).is_some() {
            return None;
        }
        let load = SharedLoad {
            source,
            kind,
            store,
        };
        let known = by_identity(load).next()?;
        (known.manifest.source_size == source.identity().size).then_some(known)
    }

    /// Compares a known file with its objects where its identity asks for that (INV-11), and maps only those that
    /// blocks of the file are compared with, each for that moment. Returns true if they agree.
    pub(crate) fn agrees(&self, source: &Source, known: &KnownFile) -> bool {
        let Some(store) = self.store else {
            return false;
        };
        let manifest = &known.manifest;
        if known.recognized.is_compared() {
            let object = |index: u32| {
                let entry = manifest.objects.get(index as usize)?;
                store
                    .map(&entry.object, tetris_store_layout::Access::ReadOnly)
                    .ok()
                    .flatten()
            };
            if !matches!(compare::agrees(source, manifest, object), Ok(true)) {
                return false;
            }
        }
        store.touch_manifest(known.id);
        true
    }
}

/// A known file, as far as its objects are in the store.
pub(super) struct Mapped {
    pub(super) known: KnownFile,
    /// References to the objects of the manifest, in its order; `None` for those that are not mapped.
    pub(super) present: Vec<Option<Mapping>>,
    /// The limit on mappings: if it is met, objects may be in the store and not mapped.
    pub(super) limit: MapLimit,
}

impl Mapped {
    /// Indices of the objects that are not in the store. Empty at the limit on mappings: no more
    /// objects can be mapped then, and the rest goes to private memory.
    pub(super) fn missing(&self) -> Vec<usize> {
        if self.limit.is_met() {
            return Vec::new();
        }
        let all = self.present.iter().enumerate();
        all.filter(|(_, mapping)| mapping.is_none())
            .map(|(index, _)| index)
            .collect()
    }
}

impl LoadContext<'_> {
    /// Maps the objects of a known file. `None` when the manifest proves not to be the file's.
    pub(super) fn attach(
        &self,
        load: SharedLoad<'_>,
        known: KnownFile,
    ) -> Result<Option<Mapped>, LoadFailure> {
        let (source, store) = (load.source, load.store);
        let manifest = &known.manifest;
        if manifest.source_size != source.identity().size {
            return Ok(None);
        }
        let objects: Vec<ObjectRef> = manifest.objects.iter().map(|entry| entry.object).collect();
        let limit = MapLimit::default();
        let threads = self.options.thread_count();
        let present = map_objects(store, &objects, self.options.access, threads, &limit);
        if known.recognized.is_compared() {
            let object = |index: u32| present.get(index as usize)?.as_deref();
            if !compare::agrees(source, manifest, object)? {
                disown(store, source, manifest.kind, known.recognized);
                return Ok(None);
            }
        }
        Ok(Some(Mapped {
            known,
            present,
            limit,
        }))
    }
}
