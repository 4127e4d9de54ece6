//! The models that a path means, without reading a model file.

use std::collections::BTreeSet;
use std::path::Path;

use tetris_loader::{LoadError, Source, hub};
use tetris_store_layout::{LastPath, ManifestId, ManifestKind, Store, StoreError};

use crate::load::bound;

/// The models that `store` has for the files at `path`, by the identities of the files as they are now:
/// kept as tensors, or whole. Nothing is hashed; a file that the store does not recognize has none.
///
/// # Errors
/// When there is no model at `path`, or a file cannot be opened.
pub fn known_models(store: &Store, path: &Path) -> Result<BTreeSet<ManifestId>, LoadError> {
    let files = match hub::resolve(path) {
        Ok(layout) => layout.files,
        Err(_) if path.is_file() => vec![path.to_owned()],
        Err(error) => return Err(error.into()),
    };
    let mut ids = BTreeSet::new();
    for file in files {
        let source = Source::open(&file)?;
        for kind in [ManifestKind::Safetensors, ManifestKind::File] {
            ids.extend(bound(&source, kind, store).map(|(_, id)| id));
        }
    }
    // An identity may outlive its manifest.
    ids.retain(|id| matches!(store.manifest(*id), Ok(Some(_))));
    Ok(ids)
}

/// The models that were last loaded by `path`, or by a path below it, as far as their hints tell. The
/// path may have been that of another container.
///
/// # Errors
/// When the store cannot be listed.
pub fn by_last_path(store: &Store, path: &Path) -> Result<Vec<(ManifestId, LastPath)>, StoreError> {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut models = Vec::new();
    for record in store.manifests()? {
        if let Some(last) = store.last_path(record.id)
            && last.path.starts_with(&path)
        {
            models.push((record.id, last));
        }
    }
    models.sort_by(|one, other| (&one.1.path, one.0).cmp(&(&other.1.path, other.0)));
    Ok(models)
}
