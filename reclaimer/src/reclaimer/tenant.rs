//! One open store: its objects and records, their holders, and the times of use.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use tetris_reclaimer_core::{
    Event, ModelSnapshot, ObjectSnapshot, RecordFile, RecordId, RecordName, ReloadCost, Space,
    State, StoreSnapshot,
};
use tetris_store_layout::{Catalog, Holders, ObjectEntry, ObjectId, Refresh, Store, StoreError};

use crate::keep_warm::{StoreDeclarations, WarmResolver};
use crate::records::{Changes, Records, millis};
use crate::report::Loads;
use crate::store::StoreConfig;

/// Inodes of a store without content: its directory and folders, header, lock file, sockets and
/// learned state, with a few to spare.
const STORE_INODES: u64 = 16;

/// One store.
#[derive(Debug)]
pub(crate) struct Tenant {
    pub(crate) config: StoreConfig,
    pub(crate) store: Store,
    pub(crate) catalog: Catalog,
    pub(crate) records: Records,
    resolver: WarmResolver,
    /// Place of each object in the catalog.
    index: Index,
    /// The objects in the catalog, for reports; `None` when it has changed since.
    ids: Option<Arc<[ObjectId]>>,
    /// Time at which each object was last seen held, in milliseconds since the epoch.
    pub(crate) last_held: HashMap<ObjectId, u64>,
    /// Records all of whose objects in the store are held.
    in_use: BTreeSet<RecordId>,
    /// False before the first observation, whose objects are no loads to count.
    looked_at: bool,
}

/// Inputs of an observation besides the store.
pub(crate) struct ObservationContext<'a> {
    /// Holders of objects; `None` if they are unknown: then all objects count as held.
    pub(crate) holders: Option<&'a Holders>,
    pub(crate) declared: &'a StoreDeclarations<'a>,
    pub(crate) reload: ReloadCost,
    pub(crate) now_ms: u64,
}

/// One store at one moment.
#[derive(Debug)]
pub(crate) struct StoreObservation {
    pub(crate) snapshot: StoreSnapshot,
    /// Holders by object, in the order of the snapshot.
    pub(crate) holders: Vec<u64>,
    /// The objects, in that order as well.
    pub(crate) ids: Arc<[ObjectId]>,
    pub(crate) loads: Loads,
    /// Records found damaged for the first time.
    pub(crate) damaged: Vec<StoreError>,
}

impl StoreObservation {
    /// Observation of a store that cannot be listed: nothing.
    pub(crate) fn nothing(config: &StoreConfig) -> Self {
        Self {
            snapshot: StoreSnapshot {
                name: config.name.clone(),
                namespace: config.namespace().map(str::to_owned),
                ..StoreSnapshot::default()
            },
            holders: Vec::new(),
            ids: Arc::default(),
            loads: Loads::default(),
            damaged: Vec::new(),
        }
    }
}

impl Tenant {
    /// Opens the store. `last_held` gives the times of use that an earlier daemon persisted.
    pub(crate) fn open(
        config: StoreConfig,
        last_held: impl FnOnce(&Store) -> HashMap<ObjectId, u64>,
    ) -> Result<Self, StoreError> {
        let store = Store::open(&config.path)?;
        Ok(Self {
            last_held: last_held(&store),
            config,
            store,
            catalog: Catalog::default(),
            records: Records::default(),
            resolver: WarmResolver::default(),
            index: Index::default(),
            ids: None,
            in_use: BTreeSet::new(),
            looked_at: false,
        })
    }

    /// Returns true if the directory still is the store that was opened. Another one may be mounted
    /// there now.
    pub(crate) fn is_still_there(&self) -> Result<bool, StoreError> {
        self.store.is_still_there()
    }

    /// Observes the store, and reports the events since the last observation to `state`.
    pub(crate) fn observe(
        &mut self,
        how: Refresh,
        around: &ObservationContext<'_>,
        state: &mut State,
    ) -> Result<StoreObservation, StoreError> {
        let new_bytes = self.refresh(how)?;
        let changes = self.records.refresh(&self.store)?;
        let (declared, now_ms) = (around.declared, around.now_ms);
        let warm = self
            .resolver
            .of(&self.store, &self.records, declared, now_ms)?;
        let objects = &self.catalog.listing().objects;
        let held_by = |entry| around.holders.map_or(0, |holders| holders.of(entry));
        let holders: Vec<u64> = objects.iter().map(held_by).collect();
        for (entry, _) in objects.iter().zip(&holders).filter(|(_, held)| **held > 0) {
            self.last_held.insert(entry.object.id, now_ms);
        }
        let mut snapshot = self.snapshot(&holders, &warm, around.reload);
        let mut loads = Loads::default();
        if around.holders.is_some() {
            loads = self.notice(&snapshot, &changes, new_bytes, now_ms, state);
        } else {
            let objects = snapshot.objects.iter_mut();
            objects.for_each(|object| object.held = true);
        }
        Ok(StoreObservation {
            snapshot,
            holders,
            ids: self.ids(),
            loads,
            damaged: changes.damaged,
        })
    }

    /// Brings the catalog up to date. Returns the bytes that are new in it.
    fn refresh(&mut self, how: Refresh) -> Result<u64, StoreError> {
        if !self.store.refresh(&mut self.catalog, how)? && self.looked_at {
            return Ok(0);
        }
        let objects = &self.catalog.listing().objects;
        let known = |entry: &&ObjectEntry| self.index.contains_key(&entry.object.id);
        let new = objects.iter().filter(|entry| !known(entry));
        let new_bytes = new.map(|entry| entry.object.len).sum();
        self.index = index(objects);
        self.ids = None;
        self.last_held.retain(|id, _| self.index.contains_key(id));
        Ok(new_bytes)
    }

    fn ids(&mut self) -> Arc<[ObjectId]> {
        let objects = &self.catalog.listing().objects;
        let ids = self
            .ids
            .get_or_insert_with(|| objects.iter().map(|entry| entry.object.id).collect());
        Arc::clone(ids)
    }

    fn snapshot(
        &self,
        holders: &[u64],
        warm: &BTreeSet<RecordId>,
        reload: ReloadCost,
    ) -> StoreSnapshot {
        let entries = self.catalog.listing().objects.iter().zip(holders);
        let objects = entries.map(|(entry, holders)| ObjectSnapshot {
            id: entry.object.id,
            len_bytes: entry.object.len,
            allocated_bytes: entry.allocated,
            published_ms: millis(entry.published),
            last_use_ms: self.last_held.get(&entry.object.id).copied().unwrap_or(0),
            held: *holders > 0,
        });
        let models = self.records.iter().map(|(id, record)| ModelSnapshot {
            id: *id,
            objects: record
                .objects
                .iter()
                .filter_map(|object| self.index.get(&object.id).copied())
                .collect(),
            total_bytes: record.total_bytes,
            last_use_ms: record.last_use_ms,
            reload_ms: reload.of(record.total_bytes),
            warm: warm.contains(id),
        });
        StoreSnapshot {
            name: self.config.name.clone(),
            namespace: self.config.namespace().map(str::to_owned),
            mount: 0,
            objects: objects.collect(),
            models: models.collect(),
            record_bytes: self.records.used().bytes,
            other_inodes: self.other_inodes(),
        }
    }

    /// Infers loads: from a newer time of the record, or because all of a model's objects are
    /// mapped.
    fn notice(
        &mut self,
        snapshot: &StoreSnapshot,
        changes: &Changes,
        new_bytes: u64,
        now_ms: u64,
        state: &mut State,
    ) -> Loads {
        let mut loads = Loads {
            missed_bytes: new_bytes,
            ..Loads::default()
        };
        let in_use: BTreeSet<RecordId> = snapshot
            .models
            .iter()
            .filter(|model| is_held(model, snapshot))
            .map(|model| model.id)
            .collect();
        for model in &snapshot.models {
            let (id, name) = (model.id, &self.config.name);
            let new = changes.new.contains(&id);
            let taken_up = in_use.contains(&id) && !self.in_use.contains(&id);
            if new || taken_up || changes.used.contains(&id) {
                let at_ms = if taken_up { now_ms } else { model.last_use_ms };
                state.observe(name, Event::Loaded { model: id, at_ms });
                if new {
                    loads.misses += 1;
                } else {
                    loads.hits += 1;
                    loads.hit_bytes += resident_bytes(model, snapshot);
                }
            }
            if self.in_use.contains(&id) && !in_use.contains(&id) {
                let at_ms = now_ms;
                state.observe(name, Event::Released { model: id, at_ms });
            }
        }
        self.in_use = in_use;
        if !std::mem::replace(&mut self.looked_at, true) {
            return Loads::default();
        }
        loads
    }

    /// Major and minor number of the device that the store lies on.
    pub(crate) fn device(&self) -> (u64, u64) {
        self.store.device()
    }

    /// Memory and inodes of the objects in the catalog, the records and the folders.
    pub(crate) fn used(&self) -> Space {
        let objects = &self.catalog.listing().objects;
        let bytes: u64 = objects.iter().map(|entry| entry.allocated).sum();
        Space {
            bytes: bytes.saturating_add(self.records.used().bytes),
            inodes: self.other_inodes().saturating_add(objects.len() as u64),
        }
    }

    /// Inodes besides those of objects. A manifest may have a hint beside it.
    fn other_inodes(&self) -> u64 {
        let records = self.records.used().files;
        records.saturating_add(self.records.manifests() + STORE_INODES)
    }

    /// The records, to choose from which go.
    pub(crate) fn record_files(&self, snapshot: &StoreSnapshot) -> Vec<RecordFile> {
        let models = snapshot.models.iter();
        let uses: HashMap<RecordId, (bool, u64)> = models
            .map(|model| {
                let wanted = model.warm || self.in_use.contains(&model.id);
                (model.id, (wanted, held_ms(model, snapshot)))
            })
            .collect();
        self.records
            .files(|id| uses.get(id).copied().unwrap_or_default())
    }

    /// Removes records, and then those without an object. Returns their number. Their memory
    /// is known at the next look.
    pub(crate) fn remove_records(&mut self, names: &[RecordName]) -> Result<u64, StoreError> {
        let mut removed = 0;
        for name in names {
            removed += u64::from(match *name {
                RecordName::Manifest(id) => self.store.remove_manifest(id)?,
                RecordName::Derived(id) => self.store.remove_derived(id)?,
                RecordName::Identity(id) => self.store.remove_identity(id)?,
            });
        }
        Ok(removed + self.store.collect_records()?)
    }

    /// The object at this place of the last snapshot.
    pub(crate) fn entry(&self, object: u32) -> Option<&ObjectEntry> {
        self.catalog.listing().objects.get(object as usize)
    }

    /// Takes freed objects out of the catalog, so that nothing counts them until the next
    /// observation.
    pub(crate) fn forget(&mut self, gone: &BTreeSet<ObjectId>) {
        if gone.is_empty() {
            return;
        }
        self.catalog.forget(|entry| gone.contains(&entry.object.id));
        self.index = index(&self.catalog.listing().objects);
        self.ids = None;
        self.last_held.retain(|id, _| !gone.contains(id));
    }
}

/// Place of each object in the catalog.
type Index = HashMap<ObjectId, u32, BuildHasherDefault<FirstBytes>>;

/// Identifiers are hashes: their first bytes are as good as a hash of them, and a pass looks up
/// 100,000.
#[derive(Default)]
struct FirstBytes(u64);

impl Hasher for FirstBytes {
    fn write(&mut self, bytes: &[u8]) {
        if let Some(first) = bytes.first_chunk() {
            self.0 = u64::from_le_bytes(*first);
        }
    }

    /// The length of the identifier, which is the same for all.
    fn write_usize(&mut self, _: usize) {}

    fn finish(&self) -> u64 {
        self.0
    }
}

fn index(objects: &[ObjectEntry]) -> Index {
    let ids = objects.iter().map(|entry| entry.object.id);
    ids.zip(0..).collect()
}

/// Time at which all of a model was last seen held, in milliseconds. Loads of processes that may
/// not set its record's time show only there.
fn held_ms(model: &ModelSnapshot, snapshot: &StoreSnapshot) -> u64 {
    let objects = model.objects.iter();
    let held = objects.filter_map(|object| snapshot.objects.get(*object as usize));
    held.map(|object| object.last_use_ms).min().unwrap_or(0)
}

fn is_held(model: &ModelSnapshot, snapshot: &StoreSnapshot) -> bool {
    let mut objects = model
        .objects
        .iter()
        .filter_map(|object| snapshot.objects.get(*object as usize));
    !model.objects.is_empty() && objects.all(|object| object.held)
}

/// Length of a model's objects that are in the store.
pub(crate) fn resident_bytes(model: &ModelSnapshot, snapshot: &StoreSnapshot) -> u64 {
    let objects = model
        .objects
        .iter()
        .filter_map(|object| snapshot.objects.get(*object as usize));
    objects.map(|object| object.len_bytes).sum()
}
