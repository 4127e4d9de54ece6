//! The manifest of a file, without publishing its content.

use std::path::Path;

use tetris_loader::{LoadError, LoadFailure, PlannedFile, Recognized, Source, compare, disown};
use tetris_store_layout::{Access, LastPath, Manifest, ManifestKind, Store};

use super::LoadContext;
use super::flow::retry;
use super::recognize::bound;

impl LoadContext<'_> {
    /// The manifest of a file; its content is not published. With `remember` the store keeps the
    /// answer, so that the file is not read for it again.
    pub(crate) fn manifest(
        &self,
        path: &Path,
        kind: ManifestKind,
        remember: bool,
    ) -> Result<Manifest, LoadError> {
        let again = || Source::open(path);
        retry(again()?, again, |source| {
            if let Some(manifest) = self.recorded_manifest(source, kind)? {
                return Ok(manifest);
            }
            let read = PlannedFile::new(source, kind, self.options.thread_count())?;
            let run = self.run_pipeline(source, &read.plan.jobs, None, false)?;
            let bindable = source.require_unchanged()?;
            let manifest = read.into_manifest(&run.refs()).0;
            if remember && bindable {
                self.record_manifest(source, &manifest);
            }
            Ok(manifest)
        })
    }

    /// The manifest that the store has for a file, if it agrees with the file.
    fn recorded_manifest(
        &self,
        source: &Source,
        kind: ManifestKind,
    ) -> Result<Option<Manifest>, LoadFailure> {
        let Some(store) = self.store.filter(|_| !self.options.ignore_identity) else {
            return Ok(None);
        };
        for (recognized, id) in bound(source, kind, store) {
            if let Ok(Some(manifest)) = store.manifest(id)
                && is_of(&manifest, source, store, recognized)?
            {
                return Ok(Some(manifest));
            }
        }
        Ok(None)
    }

    /// Publishes the manifest of a file and binds the file's identity to it, where that is possible.
    fn record_manifest(&self, source: &Source, manifest: &Manifest) {
        if let Some(store) = self.store.filter(|store| store.is_writable())
            && !manifest.objects.is_empty()
            && let Some(key) = source.stat_key(manifest.kind)
        {
            let bound = store.publish_manifest(manifest).and_then(|id| {
                store.bind(&key, id)?;
                store.note_last_path(id, || LastPath::of_path(source.path()));
                Ok(())
            });
            if let Err(error) = bound {
                tracing::debug!(%error, "the file will be hashed again");
            }
        }
    }
}

/// Returns true if a manifest is the file's, as far as its objects are in the store. Compares the same
/// as a load (INV-11).
fn is_of(
    manifest: &Manifest,
    source: &Source,
    store: &Store,
    recognized: Recognized,
) -> Result<bool, LoadFailure> {
    if !recognized.is_compared() {
        return Ok(true);
    }
    let object = |index: u32| {
        let entry = manifest.objects.get(index as usize)?;
        let mapped = store.map(&entry.object, Access::ReadOnly);
        mapped.ok().flatten()
    };
    let agrees = compare::agrees(source, manifest, object)?;
    if !agrees {
        disown(store, source, manifest.kind, recognized);
    }
    Ok(agrees)
}
