//! Manifests that may be a file's: by its identities, and by the sidecar beside it.

use tetris_loader::{LoadFailure, Recognized, Source, hub};
use tetris_store_layout::{IdentityBy, IdentityKey, Manifest, ManifestId, ManifestKind, Store};

use super::context::SharedLoad;
use crate::sidecar;

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
