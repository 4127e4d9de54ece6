//! Shared part of a model: objects of the store that its instances map.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use tetris_store_layout::{ObjectId, Store, StoreError};

use crate::model_profile::{MAX_LISTED_OBJECTS, ProfiledObject};
use crate::processes;

/// Objects that instances of a model map, and the manifests that these cover.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedPart {
    /// Object ids in hexadecimal, with the size in bytes.
    objects: BTreeMap<String, u64>,
    /// Ids of manifests with all objects mapped.
    manifests: Vec<String>,
}

impl SharedPart {
    /// Size of all objects, in bytes, each counted once.
    pub fn bytes(&self) -> u64 {
        self.objects.values().copied().fold(0, u64::saturating_add)
    }

    /// Number of objects.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Returns true if no object is mapped.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Ids of manifests with all objects mapped.
    pub fn manifests(&self) -> &[String] {
        &self.manifests
    }

    /// Adds the objects of another configuration.
    pub fn merge(&mut self, other: Self) {
        self.objects.extend(other.objects);
        self.manifests.extend(other.manifests);
        self.manifests.sort_unstable();
        self.manifests.dedup();
    }

    /// Returns the largest objects, up to the maximum that a profile lists, and the size of the
    /// others in bytes.
    pub fn listed(&self) -> (Vec<ProfiledObject>, u64) {
        let sizes = self.objects.iter();
        let mut objects: Vec<_> = sizes
            .map(|(id, &bytes)| ProfiledObject {
                id: id.clone(),
                bytes,
            })
            .collect();
        objects.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.id.cmp(&b.id)));
        let listed = objects.len().min(MAX_LISTED_OBJECTS);
        let rest = objects.split_off(listed);
        (
            objects,
            rest.iter()
                .map(|object| object.bytes)
                .fold(0, u64::saturating_add),
        )
    }
}

/// The store that instances load through, read-only.
#[derive(Debug)]
pub(crate) struct SharedStore(Store);

/// Objects that an instance maps at one moment.
#[derive(Debug, Default)]
pub(crate) struct MappedObjects {
    pub(crate) shared: SharedPart,
    /// True if a mapped object was published after the instance's start, so that its cgroup was
    /// charged for it.
    pub(crate) published_since: bool,
}

impl SharedStore {
    pub(crate) fn open(path: &Path) -> Result<Self, StoreError> {
        Store::open(path).map(Self)
    }

    /// Path of the store.
    pub(crate) fn root(&self) -> PathBuf {
        self.0.root().to_owned()
    }

    /// Returns the objects that the processes map; `start` is the start of the instance.
    pub(crate) fn mapped_by(
        &self,
        processes: &[u32],
        start: SystemTime,
    ) -> Result<MappedObjects, StoreError> {
        let files = processes::mapped_files(processes);
        let listing = self.0.objects()?;
        let mapped = listing.objects.iter();
        let mapped: Vec<_> = mapped
            .filter(|entry| files.contains(&(entry.device, entry.inode)))
            .collect();
        let lengths: HashMap<ObjectId, u64> = mapped
            .iter()
            .map(|entry| (entry.object.id, entry.object.len))
            .collect();
        Ok(MappedObjects {
            published_since: mapped.iter().any(|entry| entry.published >= start),
            shared: SharedPart {
                manifests: self.covered_manifests(&lengths.keys().copied().collect())?,
                objects: lengths
                    .into_iter()
                    .map(|(id, len)| (id.to_string(), len))
                    .collect(),
            },
        })
    }

    /// Returns manifests with at least one object and all objects mapped.
    fn covered_manifests(&self, mapped: &HashSet<ObjectId>) -> Result<Vec<String>, StoreError> {
        let mut covered = Vec::new();
        for record in self.0.manifests()? {
            // Skip a damaged or deleted manifest.
            let Ok(Some(manifest)) = self.0.manifest(record.id) else {
                continue;
            };
            let mut objects = manifest.objects.iter();
            if !manifest.objects.is_empty()
                && objects.all(|entry| mapped.contains(&entry.object.id))
            {
                covered.push(record.id.to_string());
            }
        }
        covered.sort_unstable();
        Ok(covered)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tetris_store_layout::{Access, CreateOptions};

    #[test]
    fn what_this_process_maps_is_found_once_and_nothing_else() {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let store = Store::create(dir.path(), &CreateOptions::default()).unwrap();
        let before = SystemTime::now();
        let mapped = store.publish(&[1; 5_000], Access::ReadOnly).unwrap();
        let again = store.map(&mapped.object, Access::CopyOnWrite).unwrap();
        drop(store.publish(&[2; 6_000], Access::ReadOnly).unwrap());
        let shared = SharedStore::open(dir.path()).unwrap();
        let pids = [std::process::id()];
        let before_map = shared
            .mapped_by(&pids, before - std::time::Duration::from_secs(1))
            .unwrap();
        assert!(before_map.published_since);
        assert_eq!(
            (before_map.shared.len(), before_map.shared.bytes()),
            (1, 5_000)
        );
        let (listed, rest) = before_map.shared.listed();
        assert_eq!(
            (listed[0].id.clone(), rest),
            (mapped.object.id.to_string(), 0)
        );
        drop((mapped, again));
        let later = SystemTime::now() + std::time::Duration::from_secs(1);
        let after_map = shared.mapped_by(&pids, later).unwrap();
        assert!(after_map.shared.is_empty() && !after_map.published_since);
    }

    #[test]
    fn a_profile_lists_the_largest_objects_and_counts_the_rest() {
        let extra = 3;
        let objects = (0..MAX_LISTED_OBJECTS as u64 + extra).map(|n| (format!("{n:064x}"), n + 1));
        let part = SharedPart {
            objects: objects.collect(),
            manifests: Vec::new(),
        };
        let (listed, rest) = part.listed();
        assert_eq!(listed.len(), MAX_LISTED_OBJECTS);
        assert_eq!(rest, 1 + 2 + 3);
        assert!(listed.is_sorted_by(|a, b| a.bytes >= b.bytes));
    }
}
