//! Attaching a known file: map its objects, and compare some of the file with them.

use tetris_loader::{LoadFailure, MapLimit, compare, disown, map_objects};
use tetris_store_layout::{Mapping, ObjectRef};

use super::context::{LoadContext, SharedLoad};
use super::recognize::KnownFile;

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
