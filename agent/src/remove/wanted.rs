//! The parts of the removed models, and the others that share them.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use tetris_store_layout::{
    Derivation, DerivedId, Manifest, ManifestId, ObjectRef, Store, StoreError, TensorId,
};

/// A record that stays and has an object as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Sharer {
    /// Another model.
    Model(ManifestId),
    /// A tensor derived from one of another model, with the same bytes.
    Derived(DerivedId),
}

/// The models to remove, with the tensors derived from theirs alone.
pub(super) struct Wanted {
    /// The manifests; `None` for a damaged one, which names nothing.
    pub(super) manifests: BTreeMap<ManifestId, Option<Manifest>>,
    /// The derived tensors and layouts with their objects.
    pub(super) derived: BTreeMap<DerivedId, Vec<ObjectRef>>,
    sharers: HashMap<ObjectRef, BTreeSet<Sharer>>,
}

impl Wanted {
    /// Reads the records of `store` for the models `ids`.
    pub(super) fn of(store: &Store, ids: &BTreeSet<ManifestId>) -> Result<Self, StoreError> {
        let mut wanted = Self {
            manifests: BTreeMap::new(),
            derived: BTreeMap::new(),
            sharers: HashMap::new(),
        };
        let manifests = wanted.read_manifests(store, ids)?;
        for record in store.derived_records()? {
            let Ok(Some(found)) = store.derived_record(record.id) else {
                continue;
            };
            let derivation = store.derivation(&found).unwrap_or_else(|_| Derivation {
                sources: vec![found.key.source()],
                objects: vec![found.object],
            });
            let is_own = derivation
                .sources
                .iter()
                .any(|source| manifests.contains(source));
            let objects = derivation.objects;
            if is_own {
                wanted.derived.insert(record.id, objects);
                continue;
            }
            for object in objects {
                wanted.share(object, Sharer::Derived(record.id));
            }
        }
        Ok(wanted)
    }

    /// Reads all manifests. Returns the tensors of the models that no other model has.
    fn read_manifests(
        &mut self,
        store: &Store,
        ids: &BTreeSet<ManifestId>,
    ) -> Result<HashSet<TensorId>, StoreError> {
        let (mut own, mut others) = (HashSet::new(), HashSet::new());
        for record in store.manifests()? {
            let manifest = store.manifest(record.id).ok().flatten();
            let tensors = manifest.iter().flat_map(|manifest| &manifest.tensors);
            let tensors = tensors.map(|tensor| tensor.id);
            if ids.contains(&record.id) {
                own.extend(tensors);
                self.manifests.insert(record.id, manifest);
                continue;
            }
            others.extend(tensors);
            for entry in manifest.iter().flat_map(|manifest| &manifest.objects) {
                self.share(entry.object, Sharer::Model(record.id));
            }
        }
        own.retain(|tensor| !others.contains(tensor));
        Ok(own)
    }

    fn share(&mut self, object: ObjectRef, sharer: Sharer) {
        self.sharers.entry(object).or_default().insert(sharer);
    }

    /// The records that stay and have `object`; `None` when there are none.
    pub(super) fn sharers(&self, object: &ObjectRef) -> Option<&BTreeSet<Sharer>> {
        self.sharers.get(object)
    }

    /// The objects of the models and of the derived tensors, each once.
    pub(super) fn objects(&self) -> Vec<ObjectRef> {
        let models = self.manifests.values().flatten();
        let objects = models.flat_map(|manifest| manifest.objects.iter().map(|entry| entry.object));
        let mut objects: Vec<_> = objects
            .chain(self.derived.values().flatten().copied())
            .collect();
        objects.sort_unstable_by_key(|object| (object.id, object.len, object.crc));
        objects.dedup();
        objects
    }
}
