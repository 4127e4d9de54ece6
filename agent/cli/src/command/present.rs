//! The contents of a store, and their holders.

use std::collections::HashMap;

use tetris_agent::Store;
use tetris_store_layout::{Manifest, ObjectEntry, ObjectRef};

use super::counts::HolderCounts;
use super::error::Result;

/// The objects of a store, by reference, and who holds them.
pub(crate) struct Present {
    objects: HashMap<ObjectRef, ObjectEntry>,
    counts: HolderCounts,
}

impl Present {
    /// The contents of `store` at this moment.
    pub(crate) fn of(store: &Store) -> Result<Self> {
        let objects = store.objects()?.objects;
        Ok(Self {
            counts: HolderCounts::of(store, &objects)?,
            objects: objects
                .into_iter()
                .map(|entry| (entry.object, entry))
                .collect(),
        })
    }

    /// The object, if it is in the store.
    pub(crate) fn get(&self, object: &ObjectRef) -> Option<&ObjectEntry> {
        self.objects.get(object)
    }

    /// Number of holders of the object.
    pub(crate) fn holders(&self, object: &ObjectRef) -> u64 {
        self.get(object)
            .map_or(0, |entry| self.counts.number(entry))
    }

    /// Number of creation locks of the store that are held: files that are being read.
    pub(crate) fn creation_locks(&self, store: &Store) -> u64 {
        self.counts.creation_locks(store)
    }

    /// The numbers of holders.
    pub(crate) fn counts(&self) -> &HolderCounts {
        &self.counts
    }

    /// All objects.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &ObjectEntry> {
        self.objects.values()
    }

    /// Bytes of the manifest's objects that are in the store.
    pub(crate) fn resident(&self, manifest: &Manifest) -> u64 {
        let objects = manifest.objects.iter().map(|entry| entry.object);
        objects
            .filter(|object| self.get(object).is_some())
            .map(|object| object.len)
            .sum()
    }

    /// Number of holders of the model. Each of them holds all its objects, so the object with the
    /// fewest holders decides. Other models may share all the rest.
    pub(crate) fn model_holders(&self, manifest: &Manifest) -> u64 {
        let objects = manifest.objects.iter().map(|entry| &entry.object);
        let present = objects.filter(|object| self.get(object).is_some());
        present
            .map(|object| self.holders(object))
            .min()
            .unwrap_or(0)
    }
}
