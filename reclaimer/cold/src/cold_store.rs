//! The models of one tensor store on a disk.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::path::Path;
use std::time::SystemTime;

use tetris_folder::FolderTable;
use tetris_store_layout::{
    Access, CreateOptions, DerivedRecord, Mapping, ObjectRef, Reclaimed, Store, TrustDomain,
};

use crate::copy::{FromDisk, from_disk, to_disk};
use crate::error::ColdError;
use crate::model::{ListedModel, ModelParts, ModelScan};

/// Objects mapped until a model is complete, so that nothing of it is reclaimed meanwhile. A process may have 65,530 mappings, and
/// the daemon needs some of them for other work.
const MAX_MAPPED: usize = 16_384;

/// Makes room for a number of bytes and files in the tensor store. Returns false if there is none.
pub type MakeRoom<'a> = &'a dyn Fn(u64, u64) -> bool;

/// The part of the cold tier with the models of one tensor store.
#[derive(Debug)]
pub struct ColdStore {
    store: Store,
    scan: ModelScan,
}

/// Result of keeping a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept {
    /// Number of bytes written to the disk.
    pub bytes: u64,
}

/// Result of restoring a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restored {
    /// Number of objects read from the disk.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl ColdStore {
    /// Opens the cold store in `directory`, which is made if it is missing.
    ///
    /// # Errors
    /// When it has other content, is of another version, or cannot be written.
    pub fn open(directory: &Path) -> Result<Self, ColdError> {
        let options = CreateOptions::default().with_allow_other_file_systems(true);
        let refused = |source| ColdError::Directory {
            path: directory.to_owned(),
            source: Box::new(source),
        };
        let store = Store::create(directory, &options).map_err(refused)?;
        if !store.is_writable() {
            let path = directory.to_owned();
            return Err(ColdError::NotWritable { path });
        }
        Ok(Self {
            store,
            scan: ModelScan::default(),
        })
    }

    /// The store on the disk.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Its models, the last used first.
    ///
    /// # Errors
    /// When they cannot be listed.
    pub fn models(&mut self) -> Result<Vec<ListedModel>, ColdError> {
        let mut models = self.scan.models(&self.store)?;
        models.sort_by_key(|model| Reverse((model.last_used, model.id)));
        Ok(models)
    }

    /// Returns true if the disk has `model`, with this list or another.
    pub(crate) fn lists(&self, model: &ListedModel) -> bool {
        let record = self.store.derived_record(model.id);
        record.is_ok_and(|record| record.is_some())
    }

    /// Returns true if the disk has `model` with this very list.
    pub fn has(&self, model: &ListedModel) -> bool {
        let record = self.store.derived_record(model.id);
        record.is_ok_and(|record| record.as_ref() == Some(&model.record))
    }

    /// Notes that `model` was used.
    ///
    /// # Errors
    /// When its list cannot be read.
    pub fn touch(&self, model: &ListedModel) -> Result<(), ColdError> {
        self.store.derived(&model.record.key, Access::ReadOnly)?;
        Ok(())
    }

    /// Source of `model`, and the number of bytes that keeping it would write.
    ///
    /// # Errors
    /// When `warm` does not have all of them.
    pub(crate) fn missing(
        &self,
        model: &ListedModel,
        warm: &Store,
    ) -> Result<(String, u64), ColdError> {
        let parts = ModelParts::of(model, warm)?;
        let mut bytes = 0;
        for object in self.absent(&parts) {
            if !warm.contains(object) {
                return Err(parts.incomplete(object, warm));
            }
            bytes += object.len;
        }
        Ok((parts.source_name, bytes))
    }

    fn absent<'p>(&self, parts: &'p ModelParts) -> impl Iterator<Item = &'p ObjectRef> {
        let objects = parts.objects.iter();
        objects.filter(|object| !self.store.contains(object))
    }

    /// Writes what the disk does not have of `model` from the tensor store `warm`. `keep_on` is asked before each object; after its
    /// no, another call goes on from there. Returns `None` then.
    ///
    /// # Errors
    /// When `warm` does not have all of it, or the disk takes no more.
    pub fn keep(
        &self,
        model: &ListedModel,
        warm: &Store,
        keep_on: &dyn Fn() -> bool,
    ) -> Result<Option<Kept>, ColdError> {
        let parts = ModelParts::of(model, warm)?;
        let mut bytes = 0;
        let absent: Vec<ObjectRef> = self.absent(&parts).copied().collect();
        for object in &absent {
            if !keep_on() {
                return Ok(None);
            }
            let mapped = warm.map(object, Access::ReadOnly)?;
            let mapped = mapped.ok_or_else(|| parts.incomplete(object, warm))?;
            to_disk(&mapped, object, &self.store)?;
            bytes += object.len;
        }
        self.store.sync_names()?;
        self.record(model, &parts, warm)?;
        Ok(Some(Kept { bytes }))
    }

    /// Writes the records of a model whose objects are on the disk.
    fn record(
        &self,
        model: &ListedModel,
        parts: &ModelParts,
        warm: &Store,
    ) -> Result<(), ColdError> {
        for (id, manifest) in &parts.manifests {
            // One that a power cut left without its bytes would stay.
            if self.store.manifest(*id).is_err() {
                self.store.remove_manifest(*id)?;
            }
            self.store.publish_manifest(manifest)?;
            self.store.sync_manifest(*id)?;
        }
        for (key, manifest) in parts.identities(warm)? {
            self.store.bind(&key, manifest)?;
            self.store.sync_identity(key.id())?;
        }
        for (key, object) in &parts.headers {
            self.store.record_derived(key, *object)?;
            self.store.sync_derived(key.id())?;
        }
        self.store.sync_names()?;
        let DerivedRecord { key, object } = &model.record;
        self.store.record_derived(key, *object)?;
        self.store.sync_derived(model.id)?;
        Ok(self.store.sync_names()?)
    }

    /// Brings `model` back into the tensor store `warm`, as far as it is not there. `done` receives the bytes read so far, and all of
    /// them.
    ///
    /// # Errors
    /// When there is no room, or the disk does not have all of it: then it is removed from the disk.
    pub fn restore(
        &self,
        model: &ListedModel,
        warm: &Store,
        make_room: MakeRoom<'_>,
        done: &dyn Fn(u64, u64),
    ) -> Result<Restored, ColdError> {
        let parts = ModelParts::of(model, &self.store).inspect_err(|_| self.drop_list(model))?;
        let mut mapped = Vec::new();
        let mut missing = Vec::new();
        for object in &parts.objects {
            match warm.map(object, Access::ReadOnly)? {
                Some(mapping) if mapped.len() < MAX_MAPPED => mapped.push(mapping),
                Some(_) => {}
                None => missing.push(*object),
            }
        }
        let bytes = missing.iter().map(|object| object.len).sum();
        let records = parts.manifests.len() + parts.headers.len() + 1;
        let files = (missing.len() + records) as u64;
        if !missing.is_empty() && !make_room(bytes, files) {
            let source_name = parts.source_name;
            return Err(ColdError::NoRoom { source_name, bytes });
        }
        let mut read = 0;
        for object in &missing {
            let mapping = self.bring(object, model, &parts, warm)?;
            if mapped.len() < MAX_MAPPED {
                mapped.push(mapping);
            }
            read += object.len;
            done(read, bytes);
        }
        for manifest in parts.manifests.values() {
            warm.publish_manifest(manifest)?;
        }
        for (key, manifest) in parts.identities(&self.store)? {
            warm.bind(&key, manifest)?;
        }
        for (key, object) in &parts.headers {
            warm.record_derived(key, *object)?;
        }
        let DerivedRecord { key, object } = &model.record;
        warm.record_derived(key, *object)?;
        self.touch(model)?;
        Ok(Restored {
            objects: missing.len() as u64,
            bytes,
        })
    }

    fn bring(
        &self,
        object: &ObjectRef,
        model: &ListedModel,
        parts: &ModelParts,
        warm: &Store,
    ) -> Result<Mapping, ColdError> {
        match from_disk(object, &self.store, warm)? {
            FromDisk::Copied(mapping) => Ok(mapping),
            FromDisk::Absent => {
                self.drop_list(model);
                Err(parts.incomplete(object, &self.store))
            }
            FromDisk::Damaged(found) => {
                self.drop_list(model);
                self.store.reclaim(object)?;
                Err(ColdError::Damaged {
                    source_name: parts.source_name.clone(),
                    path: self.store.object_path(object),
                    expected: object.id,
                    found,
                })
            }
        }
    }

    /// Forgets a model whose parts are not all there. What it leaves goes with the next removal.
    fn drop_list(&self, model: &ListedModel) {
        if let Err(error) = self.store.remove_derived(model.id) {
            tracing::warn!(path = %self.store.root().display(), %error, "a damaged model stays listed in the cold tier");
        }
    }

    /// Number of bytes of its objects.
    ///
    /// # Errors
    /// When they cannot be listed.
    pub fn bytes(&self) -> Result<u64, ColdError> {
        let objects = self.store.objects()?.objects;
        Ok(objects.iter().map(|entry| entry.allocated).sum())
    }

    /// Removes `model` and all that no other model needs.
    ///
    /// # Errors
    /// When a file cannot be removed.
    pub fn remove(&mut self, model: &ListedModel) -> Result<(), ColdError> {
        self.store.remove_derived(model.id)?;
        self.collect()
    }

    /// Removes what no model needs, e.g. what a kept model left when it was not finished.
    ///
    /// # Errors
    /// When a file cannot be removed.
    pub fn collect(&mut self) -> Result<(), ColdError> {
        let mut needed = HashSet::new();
        for model in self.models()? {
            match ModelParts::of(&model, &self.store) {
                Ok(parts) => needed.extend(parts.objects),
                Err(error) => {
                    tracing::warn!(%error, "a model of the cold tier is incomplete, and removed");
                    self.drop_list(&model);
                }
            }
        }
        for entry in self.store.objects()?.objects {
            if needed.contains(&entry.object) {
                continue;
            }
            if self.store.reclaim(&entry.object)? == Reclaimed::Referenced {
                tracing::debug!(object = %entry.object.id, "an object of the cold tier is in use");
            }
        }
        // Files that a power cut left short, whose places others took.
        for entry in self.store.quarantined()?.objects {
            self.store.remove_quarantined(&entry.object)?;
        }
        self.store.collect_records()?;
        Ok(())
    }

    /// The model pulled from `source_name`, by the word of the first of these domains that has one.
    ///
    /// # Errors
    /// When the record cannot be read.
    pub fn find(
        &self,
        source_name: &str,
        domains: &[TrustDomain],
    ) -> Result<Option<ListedModel>, ColdError> {
        let key = FolderTable::key(source_name);
        for (key, domain) in key.iter().cycle().zip(domains) {
            let id = key.clone().in_domain(*domain).id();
            if let Some(record) = self.store.derived_record(id)? {
                // Its restore is a use.
                let last_used = SystemTime::now();
                return Ok(Some(ListedModel {
                    id,
                    record,
                    last_used,
                }));
            }
        }
        Ok(None)
    }
}
