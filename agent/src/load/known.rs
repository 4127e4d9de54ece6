//! Recognizing a file without mapping its objects.

use tetris_loader::{Source, compare};
use tetris_store_layout::{Access, ManifestKind};

use super::context::{LoadContext, SharedLoad};
use super::recognize::{self, KnownFile};

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
        let known = recognize::by_identity(load).next()?;
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
                store.map(&entry.object, Access::ReadOnly).ok().flatten()
            };
            if !matches!(compare::agrees(source, manifest, object), Ok(true)) {
                return false;
            }
        }
        store.touch_manifest(known.id);
        true
    }
}
